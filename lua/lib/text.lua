-- Numbers and columns as text: shared by tables, plots and the shell.
local causeway = ...

--- A note beside what the user asked for: on standard error, as wide as the terminal, lines after the first set in.
function causeway._note(text)
  causeway._status("")
  local lines = causeway._lines(text, causeway.terminal_size() - #"note: ")
  io.stderr:write("note: ", table.concat(lines, "\n      "), "\n")
end

--- What `key` finds in the value that messages call `path`: "params.layers[1]".
function causeway._path(path, key)
  return math.type(key) == "integer" and string.format("%s[%d]", path, key) or path .. "." .. tostring(key)
end

--- Words with commas and "and" between them.
function causeway._listed(words)
  if #words < 2 then return words[1] or "" end
  return table.concat(words, ", ", 1, #words - 1) .. " and " .. words[#words]
end

-- A decimal of 15 to 17 digits that reads back as the same number.
function causeway._exact_text(x)
  if x ~= x then return "NaN" end
  for digits = 15, 17 do
    local text = string.format("%." .. digits .. "g", x)
    if tonumber(text) == x then return text end
  end
  return x > 0 and "Inf" or "-Inf"
end

--- Seconds with the unit that fits: 1.234 ms.
function causeway.seconds_text(s)
  if type(s) ~= "number" then causeway._raise("seconds_text: expected a number, got " .. causeway._noun(s)) end
  if s ~= s then return "-" end
  if s < 1e-6 then return string.format("%.1f ns", s * 1e9) end
  if s < 1e-3 then return string.format("%.2f µs", s * 1e6) end
  if s < 1 then return string.format("%.2f ms", s * 1e3) end
  return string.format("%.2f s", s)
end

--- Bytes with the unit that fits: 1.5 MiB.
function causeway.bytes_text(n)
  if type(n) ~= "number" then causeway._raise("bytes_text: expected a number, got " .. causeway._noun(n)) end
  if n ~= n or math.abs(n) == math.huge then
    causeway._raise("bytes_text: " .. causeway.number_text(n) .. ", expected a finite number")
  end
  local units = { "B", "KiB", "MiB", "GiB", "TiB" }
  local i = 1
  while n >= 1024 and i < #units do n, i = n / 1024, i + 1 end
  return i == 1 and string.format("%.0f B", n) or string.format("%.1f %s", n, units[i])
end

--- Columns that the text takes: characters, not bytes, and none for an accent that stands over the one before it.
function causeway._text_width(text)
  local characters = utf8.len(text)
  if not characters then return #text end
  local _, accents = text:gsub("[\xCC\xCD][\x80-\xBF]", "")
  return characters - accents
end

--- A function that takes a text in pieces, cut anywhere, and gives it to write(text) with lines of at most `columns`
--- columns where its words allow that; and one that ends the text. A word is held until it is complete, or longer than
--- a line. Blanks at the end of a line go.
function causeway._in_whole_words(columns, write)
  local blanks, word, column, long = "", "", 0, false
  local function put()
    if column > 0 and not long and column + causeway._text_width(blanks .. word) > columns then
      write("\n")
      blanks, column = "", 0
    end
    write(blanks .. word)
    column = column + causeway._text_width(blanks .. word)
    blanks, word = "", ""
  end
  local function take(piece)
    for part, separator in piece:gmatch("([^ \n]*)([ \n]?)") do
      word = word .. part
      long = long or causeway._text_width(word) > columns
      if word ~= "" and (long or separator ~= "") then put() end
      if separator ~= "" then long = false end
      if separator == " " then blanks = blanks .. " " end
      if separator == "\n" then
        write("\n")
        blanks, column = "", 0
      end
    end
  end
  return take, function()
    if word ~= "" then put() end
  end
end

-- The first `room` characters of a word, and the rest.
local function cut(word, room)
  local to = utf8.len(word) and utf8.offset(word, room + 1) or room + 1
  return word:sub(1, to - 1), word:sub(to)
end

--- The text as a list of lines of at most `room` characters, or of one where there is no room: broken at blanks, a
--- longer word inside. Lines of the text that fit stay as they are.
function causeway._lines(text, room)
  local lines, width = {}, causeway._text_width
  room = math.max(room, 1)
  for whole in (text .. "\n"):gmatch("(.-)\n") do
    if width(whole) <= room then
      lines[#lines + 1] = whole
    else
      local line = ""
      for word in whole:gmatch("%S+") do
        if line ~= "" and width(line) + 1 + width(word) > room then lines[#lines + 1], line = line, "" end
        line = line == "" and word or line .. " " .. word
        while width(line) > room do lines[#lines + 1], line = cut(line, room) end
      end
      lines[#lines + 1] = line
    end
  end
  return lines
end
