-- page() -> parts, tell, show: the parts of an HTML page as a list; tell(text) and show(value) add one and put it on
-- the screen too. Lines of a text that begin with two spaces keep their columns on the page.
local text_parts = dofile(debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") .. "/text_parts.lua")

return function()
  local parts = {}
  local function tell(text)
    print(text)
    for _, part in ipairs(text_parts(text)) do parts[#parts + 1] = part end
  end
  local function show(value)
    print()
    display(value)
    parts[#parts + 1] = value
  end
  return parts, tell, show
end
