-- What cells of a table show: formats for text_table. A value that is no number (the status of a point without one)
-- stays.
local cells = {}

--- x · factor in `digits` significant digits.
function cells.scaled(factor, digits)
  return function(x) return type(x) == "number" and number_text(x * factor, digits) or x end
end

--- The columns of a table of times with those of each time's quartiles and number behind them.
function cells.with_quartiles(columns)
  for _, column in ipairs({ { key = "lower", title = "quartile", format = "%.3g", align = "right" },
    { key = "upper", title = "quartile", format = "%.3g", align = "right" },
    { key = "samples", title = "n", align = "right" } }) do
    columns[#columns + 1] = column
  end
  return columns
end

return cells
