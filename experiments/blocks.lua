-- What do the building blocks of a method of one's own cost: a recurrence written in Lua with scan, operations in
-- place, einsum?
--
--   causeway experiments/blocks.lua                      N = 256, beside NumPy where python3 has it
--   causeway experiments/blocks.lua --seconds 0.1        less time a row
--   causeway experiments/blocks.lua --python none        without NumPy
--
--   --length 256                     tokens of the recurrences (8 heads, d = 64)
--   --seconds 0.5                    time spent on a row
--   --python python3                 the Python that is asked for NumPy (experiments/peers/numpy_blocks.py)
--
-- Method: Float32; each row is its fastest call, after a first one, the library's and then NumPy's. The recurrences
-- S = diag(a) S diag(b) + k vᵀ and S = S + β k (v - Sᵀ k)ᵀ, o = Sᵀ q, are written in three ways: with scan, a token at
-- a time with operations in place, and a token at a time with operations that make new tensors; the three are first
-- compared with each other.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/lib/arguments.lua")(arg, { length = 256, seconds = 0.5, python = "python3" },
  { length = { 1 }, seconds = { from = 0 } })
local N, h, d = options.length, 8, 64

seed(1)
local q, k, v = randn(1, h, N, d), randn(1, h, N, d), randn(1, h, N, d)
k = k / sqrt(sum(pow(k, 2), 4))
local a, b = 0.9 + 0.1 * rand(1, h, N, d), 0.9 + 0.1 * rand(1, h, N, d)
local beta = rand(1, h, N)
local inputs = { q = q, k = k, v = v, a = a, b = b, beta = beta }

-- A token at a time; update(S, token) returns the new state, token(A) row t of every head.
local function by_token(update)
  local S, out = zeros(1, h, d, d), zeros(1, h, N, d)
  for t = 1, N do
    local function token(A) return A(":", ":", t) end
    S = update(S, token)
    out:set(einsum("bhi,bhij->bhj", token(q), S), ":", ":", t)
  end
  return out
end

local function column(x) return x:reshape(1, h, d, 1) end
local function row(x) return x:reshape(1, h, 1, d) end

local recurrences = {
  ["two-sided gates"] = {
    scan = function(S, x)
      S = diag(x.a) * S * diag(x.b) + outer(x.k, x.v)
      return x.q * S, S
    end,
    ["in place"] = function(S, token)
      return S:times_(column(token(a))):times_(row(token(b))):add_(outer(token(k), token(v)))
    end,
    ["new tensors"] = function(S, token)
      return times(times(column(token(a)), S), row(token(b))) + column(token(k)) * row(token(v))
    end,
  },
  ["delta rule"] = {
    scan = function(S, x)
      S = S + outer(x.k, x.beta * (x.v - x.k * S))
      return x.q * S, S
    end,
    ["in place"] = function(S, token)
      local u = token(v):sub_(einsum("bhi,bhij->bhj", token(k), S)):times_(token(beta):reshape(1, h, 1))
      return S:add_(outer(token(k), u))
    end,
    ["new tensors"] = function(S, token)
      local u = times(token(v) - (row(token(k)) * S):reshape(1, h, d), token(beta):reshape(1, h, 1))
      return S + column(token(k)) * row(u)
    end,
  },
}

local function scanned(step)
  return (scan{ inputs = inputs, state = zeros(1, 1, d, d), step = step })
end

local A, B, w = randn(1000, 1000), randn(1000, 1000), sign(randn(1000))  -- so that A stays finite
local calls, rows = {}, {}
local function add(name, way, call)
  rows[#rows + 1] = { row = name, way = way, call = call }
  calls[#calls + 1] = name
end
for _, name in ipairs { "two-sided gates", "delta rule" } do
  local ways = recurrences[name]
  local exact = by_token(ways["new tensors"])
  for _, out in ipairs { scanned(ways.scan), by_token(ways["in place"]) } do
    local err = relative_error(out, exact)
    if not (err < 1e-5) then error(string.format("%s is wrong: error %.1e, expected below 1e-5", name, err), 0) end
  end
  add(name, "scan", function() scanned(ways.scan) end)
  add(name, "in place", function() by_token(ways["in place"]) end)
  add(name, "new tensors", function() by_token(ways["new tensors"]) end)
end
add("A += B", "A:add_(B)", function() A:add_(B) end)
add("A += B / 2", "A:add_(B, 0.5)", function() A:add_(B, 0.5) end)
add("A *= w", "A:times_(w)", function() A:times_(w) end)
add("cumprod of rows", "cumprod(B, 1)", function() cumprod(B, 1) end)
for _, text in ipairs {
  "bhnd,bhmd->bhnm 2x8x512x64 2x8x512x64", "bnhd,bmhd->bhnm 2x512x8x64 2x512x8x64",
  "bhnm,bhmd->bhnd 2x8x512x512 2x8x512x64", "bhnd,bhne->bhde 2x8x512x64 2x8x512x64",
  "bhnd,hde->bhne 2x8x512x64 8x64x64", "bhnd,bhnd->bhn 2x8x4096x64 2x8x4096x64",
  "bhnd,bhmd,bhme->bhne 2x8x512x64 2x8x512x64 2x8x512x64",
} do
  local formula, operands = text:match("^%S+"), {}
  for shape in text:gmatch(" (%S+)") do
    local dims = {}
    for n in shape:gmatch("%d+") do dims[#dims + 1] = math.tointeger(n) end
    operands[#operands + 1] = randn(dims)
  end
  add(text, "einsum", function() einsum(formula, table.unpack(operands)) end)
end

-- NumPy's milliseconds by row, the lesser of those with all threads and with one: on a busy machine the threads of its
-- products wait for each other. None where it is not there.
local function numpy()
  local times_of, names = {}, {}
  if options.python == "none" then return times_of end
  for _, name in ipairs(calls) do
    if not times_of[name] then
      times_of[name] = "–"
      names[#names + 1] = "'" .. name .. "'"
    end
  end
  for _, setting in ipairs { "", "OPENBLAS_NUM_THREADS=1 " } do
    local pipe = io.popen(string.format("%s%s %s/peers/numpy_blocks.py %g %d %s 2>&1", setting, options.python, folder,
      options.seconds, N, table.concat(names, " ")))
    for line in pipe:lines() do
      local name, ms = line:match("^(.-)\t([%d.]+)$")
      if not name then print(line) return times_of end
      local before = times_of[name]
      times_of[name] = math.min(tonumber(ms), type(before) == "number" and before or math.huge)
    end
    pipe:close()
  end
  return times_of
end

print(tostring(machine()))
for _, r in ipairs(rows) do
  r.time = 1e3 * btime(r.call, { seconds = options.seconds, show = false }).minimum
end
local peer = numpy()
local cells = dofile(folder .. "/lib/cells.lua")
for _, r in ipairs(rows) do
  r.numpy = peer[r.row]
  r.row = r.row:match("^%S+%->%S+") or r.row
end
print(text_table(rows, {
  title = string.format("Float32, %d threads; N = %d, 8 heads, d = 64; A, B: 1000 × 1000", threads(), N),
  columns = {
    { key = "row", title = "" },
    { key = "way", title = "written with" },
    { key = "time", unit = "ms", format = cells.scaled(1, 3), align = "right" },
    { key = "numpy", title = "NumPy", unit = "ms", format = cells.scaled(1, 3), align = "right" },
  },
}))
