-- text_parts(text): a text as parts of a page; lines that begin with two spaces keep their columns there.
return function(text)
  local parts, run, in_columns = {}, {}, false
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
  return parts
end
