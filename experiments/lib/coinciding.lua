-- Curves of a figure that lie on one another, within 3 %: the label of each gets "≈" and the name of the first of them.
-- Returns a sentence that names them, or nil where there are none.
local function same(a, b)
  if #a.x ~= #b.x or #a.x == 0 then return false end
  for i = 1, #a.x do
    if a.x[i] ~= b.x[i] or math.abs(a.y[i] - b.y[i]) > 0.03 * math.abs(b.y[i]) then return false end
  end
  return true
end

return function(curves)
  local names, told = {}, {}
  for i, curve in ipairs(curves) do names[i] = curve.label end
  for i, curve in ipairs(curves) do
    for j = 1, i - 1 do
      if same(curve, curves[j]) then
        curve.label = names[i] .. " ≈ " .. names[j]
        told[#told + 1] = curve.label
        break
      end
    end
  end
  return #told > 0 and "Lines on one another within 3 %: " .. table.concat(told, "; ") .. "." or nil
end
