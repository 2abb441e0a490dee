-- wrapped(text, limit): each line of a text in lines of at most `limit` columns, broken at blanks. Lines that begin
-- with two blanks keep their columns.
return function(text, limit)
  local lines = {}
  for paragraph in (text .. "\n"):gmatch("(.-)\n") do
    local in_columns = paragraph:sub(1, 2) == "  "
    local line = in_columns and paragraph or ""
    for word in (in_columns and "" or paragraph):gmatch("%S+") do
      if line ~= "" and utf8.len(line) + 1 + utf8.len(word) > limit then
        lines[#lines + 1], line = line, ""
      end
      line = line == "" and word or line .. " " .. word
    end
    lines[#lines + 1] = line
  end
  return table.concat(lines, "\n")
end
