-- What cells of a table show: formats for text_table. A value that is no number (the status of a point without one)
-- stays.
local cells = {}

--- x · factor in `digits` significant digits.
function cells.scaled(factor, digits)
  return function(x) return type(x) == "number" and number_text(x * factor, digits) or x end
end

return cells
