-- What people of Julia and Python type without thinking.
local causeway = ...

causeway.pi = math.pi

--- Ends the program, with an error's message on standard error where one is given. status: true (the default), false,
--- or a number, as os.exit takes it.
function causeway.exit(status, message)
  if status ~= nil and type(status) ~= "boolean" and not math.tointeger(status) then
    causeway._raise("exit: status: " .. tostring(status) .. ", expected a whole number, true or false")
  end
  if message ~= nil then causeway._report(tostring(message)) end
  os.exit(status == nil or status, true)
end

causeway.quit = causeway.exit

-- A number has neither fields nor methods: what a tensor of one element has elsewhere leads to what does it here. Of a
-- NaN print shows no sign, which says nothing; what `..` makes is Lua's own text.
debug.setmetatable(0, {
  __metatable = false,
  __tostring = function(x) return x ~= x and "nan" or x .. "" end,
  __index = function(_, key)
    if type(key) ~= "string" then
      causeway._raise("a number has no elements, [" .. tostring(key) .. "] is of a table; of a size it is size(A, 1)")
    end
    local instead = causeway._no_method(key, {})
    causeway._raise(string.format('a number has no "%s"%s', key, instead and " (" .. instead .. ")" or ""))
  end,
})

setmetatable(causeway, {
  __name = "causeway",
  __tostring = function()
    return "The table of the library, whose functions are globals: ? lists their topics, ?name\nexplains one, and Tab "
      .. "completes them."
  end,
})
