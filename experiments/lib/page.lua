-- page() -> parts, tell, show: the parts of an HTML page as a list; tell(text) and show(value) add one and put it on
-- the screen too. Lines of a text that begin with two spaces keep their columns on the page.
return function()
  local parts = {}
  local function tell(text)
    print(text)
    local run, in_columns = {}, false
    local function close()
      local lines = table.concat(run, "\n")
      if #run > 0 then parts[#parts + 1] = in_columns and { code = lines } or lines end
      run = {}
    end
    for line in text:gmatch("[^\n]+") do
      local columns = line:sub(1, 2) == "  "
      if columns ~= in_columns then close() end
      in_columns = columns
      run[#run + 1] = line
    end
    close()
  end
  local function show(value)
    print()
    display(value)
    parts[#parts + 1] = value
  end
  return parts, tell, show
end
