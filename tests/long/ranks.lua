-- What processes that share a call say when one of them makes another call, dies, loops or fails, and after how long:
-- each case run anew, and written into docs/reliability.md between two marks.
--
--   causeway tests/long/ranks.lua PROGRAM [OTHER]
--
-- PROGRAM is a causeway to run them with, as in build/causeway; OTHER one for tensors on GPUs, as in
-- build/tests/causeway-without-gpus, whose kernels are definitions; without it PROGRAM, where there are GPUs.
--
-- Three processes on the CPU, two with a GPU each. The seconds are those of the whole job less those of one that does
-- nothing.
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local page_file = here .. "/../../docs/reliability.md"
local function absolute(path)
  local found <close> = assert(io.popen("realpath '" .. path .. "'"))
  return found:read("l")
end
local program = absolute(arg[1] or error("expected the program, as in build/causeway", 0))
local on_gpus = arg[2] and absolute(arg[2]) or has_gpu() and program

-- What happens; the code of a script, in which q, k and v are there, `me` is the rank, `last` the highest one, and
-- `on` the options of the engine.
local call = "linear_attention(q, k, v, on)"
local function of_last(code) return ("if me == last then %s end "):format(code) end
local kill = "os.execute('kill -9 $PPID')"
local cases = {
  { "has other shapes", of_last("v = v2") .. call },
  { "has other values", of_last("q, k = k, q") .. call },
  { "has another option", of_last("on.scale = 0.5") .. call },
  { "makes another call", of_last("linear_attention = softmax_attention") .. call },
  { "makes no call, and its script ends", "if me < last then " .. call .. " end" },
  { "has an error of its own", of_last("error('mine alone')") .. call },
  { "has an error of its own in the call", of_last("v = v3") .. call },
  { "catches that error, and makes the call that the others make", of_last("pcall(linear_attention, q, k, v3, on)") ..
    call },
  { "is killed before the call", of_last(kill) .. call },
  { "is killed while calls go on", of_last("os.execute('(sleep 1; kill -9 $PPID) &')") ..
    "while true do " .. call .. " end" },
  { "loops, with timeout = 2", of_last("while true do end") .. "on.timeout = 2 " .. call },
  { "catches an error of its own, and ends later",
    "local ok, why = pcall(function() " .. of_last("error('mine alone')") .. call ..
    " end) if not ok then error(why, 0) end" },
}

local function folder()
  local pipe <close> = assert(io.popen("mktemp -d"))
  return pipe:read("l")
end

-- Lines of standard error without those of mpirun, and the seconds.
local function job(ranks, with, code)
  local where = folder()
  local script = assert(io.open(where .. "/s.lua", "w"))
  script:write(code, "\n")
  script:close()
  local start = clock()
  local pipe = assert(io.popen(("cd %s && mpirun --allow-run-as-root --oversubscribe --mca " ..
    "btl_vader_single_copy_mechanism none -n %d %s s.lua 2>&1 > out"):format(where, ranks, with)))
  local lines, inside = {}, false
  for line in pipe:lines() do
    if line:find("^%-%-%-%-%-%-") then inside = not inside
    elseif line:find("^mpirun noticed") then
      lines[#lines + 1] = line:gsub(" with PID %d+ on node %S+", "")
    elseif not (inside or line == "" or line:find("stack traceback:", 1, true) or line:find("\t", 1, true)) then
      lines[#lines + 1] = line
    end
  end
  pipe:close()
  local seconds = clock() - start
  os.execute("rm -r '" .. where .. "'")
  return lines, seconds
end

local function inputs(to)
  return ("seed(1) local me, last = mpi_rank(), mpi_size() - 1 local on = {engine = '%s'} " ..
    "local function tensor_of(width) return randn(1, 2, 300, width)%s end " ..
    "local q, k, v, v2 = tensor_of(64), tensor_of(64), tensor_of(64), tensor_of(32) " ..
    "local v3 = v:reshape(1, 2, 600, 32)\n")
    :format(to == "" and "mpi" or "nccl", to)
end

local function short(line)
  return (line:gsub("s%.lua:%d+: ", ""):gsub("%d%d%d%d%d%d%d%d%d+", "…"):gsub("|", "\\|"))
end

local rows = {}
local function add(name, ranks, with, to)
  local _, nothing = job(ranks, with, inputs(to))
  for _, case in ipairs(cases) do
    local lines, seconds = job(ranks, with, inputs(to) .. case[2])
    local said = {}
    for _, line in ipairs(lines) do said[#said + 1] = short(line) end
    rows[#rows + 1] = ("| %s | %s | %s | %.1f |"):format(name, case[1],
      #said > 0 and table.concat(said, "<br>") or "nothing", math.max(0, seconds - nothing))
    print(rows[#rows])
  end
end
add("three on the CPU", 3, program, "")
if on_gpus then add("two with a GPU each", 2, on_gpus, ":f32():gpu()") end

local file = assert(io.open(page_file))
local page = file:read("a")
file:close()
local first, last = "<!-- ranks -->\n", "<!-- end of ranks -->"
local _, begin = page:find(first, 1, true)
local stop = page:find(last, 1, true)
assert(begin and stop, page_file .. ": has no marks of the ranks")
if not on_gpus then
  for row in page:sub(begin, stop):gmatch("(| two with a GPU each |[^\n]*)\n") do rows[#rows + 1] = row end
end
file = assert(io.open(page_file, "w"))
file:write(page:sub(1, begin), "| processes | the last one | what they say | s |\n|---|---|---|---:|\n",
  table.concat(rows, "\n"), "\n", page:sub(stop))
assert(file:close())
