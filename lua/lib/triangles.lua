-- tril and triu: the triangles of matrices, of functions that grad differentiates.
local causeway = ...

-- X where keeps(place of the column, place of the row + diagonal), else 0; the last two dimensions are those of
-- matrices.
local function triangle(name, keeps, X, diagonal)
  diagonal = diagonal == nil and 0 or diagonal
  if not math.tointeger(diagonal) then
    local given = type(diagonal) == "userdata" and causeway._noun(diagonal) or causeway._literal(diagonal)
    causeway._raise(name .. ": diagonal: " .. given .. ", expected a whole number, as in " .. name
      .. "(X, -1)")
  end
  if not causeway._is_tensor(X) then
    causeway._raise(name .. ": X: " .. causeway._noun(X) .. ", expected a Tensor")
  end
  local dims = causeway.ndims(X)
  if dims < 2 then causeway._raise(name .. ": X: a tensor of one dimension, expected matrices, [..., n, m]") end
  local n, m = causeway.size(X, dims - 1), causeway.size(X, dims)
  if n == 0 or m == 0 then return X end
  local rows, columns = causeway.range(1, n):reshape(n, 1), causeway.range(1, m):reshape(1, m)
  local mask = keeps(columns, rows + diagonal)
  return causeway.where(dims > 2 and mask:reshape(table.unpack({ 1, 1, n, m }, 5 - dims)) or mask, X, 0)
end

--- X on and below its diagonal, else 0; `diagonal` moves it to the right.
function causeway.tril(X, diagonal) return triangle("tril", causeway.le, X, diagonal) end

--- X on and above its diagonal, else 0.
function causeway.triu(X, diagonal) return triangle("triu", causeway.ge, X, diagonal) end
