-- coroutine.wrap, whose errors keep their kind: Lua's own puts the position of the caller in front of each, which makes
-- another error of it. One of a kind has its position already.
local causeway = ...
local raise <const>, create <const>, resume <const>, status <const>, close <const> =
  causeway._raise, coroutine.create, coroutine.resume, coroutine.status, coroutine.close

-- What resume returned, as the function that wrap made returns or raises it. That one calls this last, so that its
-- caller is at level 2.
local function handed_on(thread, good, ...)
  if good then return ... end
  local message = ...
  -- Its variables are closed, and what that raises takes the place of the message.
  if status(thread) == "dead" then
    local ended, last = close(thread)
    if not ended then message = last end
  end
  if type(message) ~= "string" or causeway.error_kind(message) then error(message, 0) end
  error(message, 2)
end

function package.loaded.coroutine.wrap(...)
  local f = ...
  if type(f) ~= "function" then
    local got = select("#", ...) == 0 and "no value" or type(f)
    raise("bad argument #1 to 'wrap' (function expected, got " .. got .. ")")
  end
  local thread = create(f)
  return function(...) return handed_on(thread, resume(thread, ...)) end
end
