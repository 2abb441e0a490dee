-- Rows that a .csv file was loaded as: a list of tables, whose columns are had by name.
local causeway = ...

local raise = causeway._raise

-- The columns that any of the rows has.
local function columns_of(rows)
  local columns, seen = {}, {}
  for _, row in ipairs(rows) do
    for name in pairs(row) do
      if not seen[name] then seen[name], columns[#columns + 1] = true, name end
    end
  end
  table.sort(columns)
  return columns, seen
end

local function file_column(rows, name)
  local columns, known = columns_of(rows)
  if not known[name] then
    raise(string.format('column: no row has "%s", expected one of %s', tostring(name), table.concat(columns, ", ")))
  end
  local values = {}
  for _, row in ipairs(rows) do values[#values + 1] = row[name] end
  return values
end

-- A column is asked of the rows by the method that results of a sweep have too.
local file_rows = causeway._shown_plainly({ __has_columns = true, __index = function(rows, key)
  if key == "column" then return file_column end
  if type(key) ~= "string" or key:find("^__") or not causeway._asked_by_user(2) then return nil end
  local columns, known = columns_of(rows)
  if known[key] then
    raise(string.format('rows have no "%s" of their own: rows:column("%s") is the list of that column, rows[1].%s '
      .. "that of the first row", key, key, key))
  end
  causeway._raise_absent("a list of rows with the columns " .. table.concat(columns, ", "), key, {}, { "column" })
end })

--- Gives the rows of a .csv file their method column, and an error for the name of a column that they are asked for.
function causeway._file_rows(rows) return setmetatable(rows, file_rows) end
