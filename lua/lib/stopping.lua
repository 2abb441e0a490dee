-- xpcall, whose message handlers are not called by an error that stops the computation. Such an error is raised in a
-- hook, in which Lua calls no other hook: a handler that loops would never end.
local causeway = ...

local xpcall = xpcall

-- The handler is called last, in the place of this function: the levels of the stack that it asks for stay as they are.
local function unless_it_stops(handler)
  return function(message)
    if causeway._stops() then return message end
    return handler(message)
  end
end

function _G.xpcall(...)
  local f, handler = ...
  if type(handler) == "function" and debug.getinfo(handler, "S").what ~= "C" then
    return xpcall(f, unless_it_stops(handler), select(3, ...))
  end
  return xpcall(...)
end

_ENV.xpcall = _G.xpcall -- by which a function that was given to sweep is known
