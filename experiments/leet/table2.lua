-- leet, Table 2: in what language each method is written there, and here.
--
--   causeway experiments/leet/table2.lua                a second; --quick and --full change nothing
--
-- Printed: PyTorch and CUDA. Here: C++ and CUDA, each compared with the Float64 definition; where there is no GPU its
-- form is listed and not run.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "leet", name = "table2",
  title = "in what language each method is written", rules = { device = { "cpu" } },
  differs = "Printed: PyTorch and CUDA. Here: C++ and CUDA." })
local by_short = {}
for _, m in ipairs(method_list()) do by_short[m.short] = m end
seed(1)
local B, C, V = randn(1, 2, 300, 16), randn(1, 2, 300, 16), randn(1, 2, 300, 16)
local rows = {}
for i, row in ipairs(item:printed()) do
  local m = by_short[row.abbreviation]
  local devices = {}
  for _, device in ipairs(m and m.device or {}) do devices[device] = true end
  rows[i] = { method = row.method_name, short = row.abbreviation, pytorch = row.pytorch_impl, cuda = row.cuda_impl,
    here = m and m.name or "none", cpp = m and "yes" or "no", own_cuda = devices.gpu and "yes" or "no" }
  local what = row.method_name .. " is written and right here"
  if not m then
    item:judge(what, "count", verdicts.whether(false, "there is no method of this abbreviation"))
  else
    local worst = 0
    for _, decay in ipairs({ 1, 0.9 }) do
      worst = math.max(worst, relative_error(causal_linear_attention(B, C, V, { method = m.name, decay = decay }),
        causal_oracle(B, C, V, { decay = decay })))
    end
    item:judge(what, "count", verdicts.whether(worst <= 1e-5,
      string.format("%s: error %.1e without and with decay", m.name, worst)), "B7")
  end
end
item:table(rows, { title = "Implementations", columns = { "method", { key = "short", title = "abbreviation" },
  { key = "pytorch", title = "PyTorch, printed" }, { key = "cuda", title = "CUDA, printed" }, "here",
  { key = "cpp", title = "C++" }, { key = "own_cuda", title = "CUDA, this build" } } })
item:finish()
