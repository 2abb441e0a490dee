-- Numbers about lists of numbers.
local causeway = ...

local Summary = { __name = "Summary" }
causeway._only_fields(Summary, { what = "a summary", fields = "count minimum median mean std maximum" })

function Summary.__tostring(s)
  local number = causeway.number_text
  return string.format("%s ± %s (median %s, from %s to %s, %d value%s)", number(s.mean), number(s.std),
    number(s.median), number(s.minimum), number(s.maximum), s.count, s.count == 1 and "" or "s")
end

function Summary.__rich(s) return { text = tostring(s) } end

--- count, minimum, median, mean, std, maximum of a list of numbers or a Tensor.
function causeway.summary(values) return setmetatable(causeway._summary(values), Summary) end
