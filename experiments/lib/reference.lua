-- What the documents print, from experiments/data/reference.
local reference = {}

--- The rows of a printed table: reference.rows(experiments, "leet", "table3"), experiments being that folder.
function reference.rows(experiments, document, name)
  return load(string.format("%s/data/reference/%s/%s.csv", experiments, document, name))
end

--- A number of the running text by its name.
function reference.quoted(experiments, document, quantity)
  for _, row in ipairs(reference.rows(experiments, document, "quoted")) do
    if row.quantity == quantity then return row.value end
  end
  error(string.format("reference: %s has no quoted figure %q", document, quantity), 0)
end

--- A length as printed, 8192, "8k" or "5.12M", in tokens; k is 1000 unless `thousand` says 1024.
function reference.tokens(text, thousand)
  if type(text) == "number" then return text end
  local digits, unit = text:match("^([%d.]+)([kM]?)$")
  if not digits then error(string.format("reference: %q, expected a length such as 8k", text), 0) end
  thousand = thousand or 1000
  return math.floor(tonumber(digits) * (unit == "k" and thousand or unit == "M" and thousand ^ 2 or 1) + 0.5)
end

return reference
