-- What people of Julia and Python type without thinking.
local causeway = ...

causeway.pi = math.pi

--- Ends the program. status: true (the default), false, or a number, as os.exit takes it.
function causeway.exit(status)
  if status ~= nil and type(status) ~= "boolean" and not math.tointeger(status) then
    causeway._raise("exit: status: " .. causeway._told(status) .. ", expected a whole number, true or false")
  end
  os.exit(status == nil or status, true)
end

causeway.quit = causeway.exit
