-- What luacheck demands of the Lua files: `.ci/format --check` runs it in the folder of this file.
std = "lua54"
max_line_length = 120
self = false -- a method need not use its object
ignore = { "581" } -- `not (x <= y)` is what refuses a NaN, `x > y` is not

-- The globals of the shell are what the manual lists: a test holds that every public function stands there.
local public = { "arg", "ans", "causeway" }
local manual = {}
local function none() return {} end -- what a help file calls for its lists
local stub = setmetatable({ manual = manual }, { __index = function() return none end })
local listing = io.popen("ls lua/help/*.lua")
for path in listing:lines() do assert(loadfile(path))(stub) end
listing:close()
for name in pairs(manual) do public[#public + 1] = name end

files["experiments"] = { read_globals = public }
files["docs/manual"] = { read_globals = public }
files["tests/gpu"] = { read_globals = public }
files["tests/long"] = { read_globals = public }
