-- What one reads when something goes wrong: one session, in which each time another thing fails, run anew and written
-- into docs/reliability.md between two marks.
--
--   causeway tests/long/messages.lua PROGRAM    PROGRAM is a causeway to run them with, as in build/causeway
--
-- What a GPU says is kept from an earlier run where there is none here.
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local page_file = here .. "/../../docs/reliability.md"
local program = arg[1] or error("expected the program, as in build/causeway", 0)
local found <close> = assert(io.popen("realpath '" .. program .. "'"))
program = found:read("l")

-- What happens, how it comes about, what is typed. $P is the program, run in a folder of its own; the lines of code are
-- those of a script, which an error ends as it ends an entry at the prompt.
local mpi = "mpirun --allow-run-as-root --oversubscribe -n 2 $P s.lua"
local cases = {
  { "memory runs out", "ulimit -v 4000000; $P s.lua", "x = randn(40000, 40000)" },
  { "a file is cut", "$P -e 'save(\"x.npy\", randn(1000, 8))' && truncate -s 9000 x.npy; $P s.lua", "load('x.npy')" },
  { "a file is damaged", "$P -e 'save(\"x.npz\", {a = randn(100, 8)})' && " ..
    "printf 'oops' | dd of=x.npz bs=1 seek=2000 conv=notrunc 2>&-; $P s.lua", "load('x.npz')" },
  { "a file may grow no further", "ulimit -f 100; $P s.lua", "save('x.npy', randn(1000, 1000))" },
  { "a process of several is killed", mpi,
    "q = randn(1, 2, 50, 8)\nif mpi_rank() == 1 then os.execute('kill -9 $PPID') end\ntree_decode(q, q, q)" },
  { "a process of several has an error", mpi,
    "q = randn(1, 2, 50, 8)\nif mpi_rank() == 1 then error('mine alone') end\ntree_decode(q, q, q)" },
  { "a process of several loops", mpi, "q = randn(1, 2, 50, 8)\nif mpi_rank() == 1 then while true do end end\n" ..
    "tree_decode(q, q, q, {timeout = 2})" },
  { "keys differ between processes", mpi, "seed(1)\nq = randn(1, 2, 50, 8)\ntree_decode(q, (1 + mpi_rank()) * q, q)" },
  { "Ctrl-C while a kernel runs", "timeout -s INT 2 $P s.lua",
    "q = randn(1, 8, 65536, 64)\nsoftmax_attention(q, q, q)" },
  { "the GPU is full", "$P s.lua", "x = {}\nfor i = 1, 1000 do x[i] = gpu_randn(1 << 32) end", gpu = true },
  { "Ctrl-C while a kernel runs on the GPU", "timeout -s INT 20 $P s.lua",
    "q = gpu_randn(1, 8, 65536, 64)\nwhile true do softmax_attention(q, q, q) end", gpu = true },
}

local function folder()
  local pipe <close> = assert(io.popen("mktemp -d"))
  return pipe:read("l")
end

-- What mpirun says of the end of a process, but for who died of what.
local function is_more(line, of_mpirun) return line == "" or of_mpirun and not line:find("^mpirun noticed") end

local function read_by_the_user(command, code)
  local where = folder()
  local script = assert(io.open(where .. "/s.lua", "w"))
  script:write(code, "\n")
  script:close()
  local pipe = assert(io.popen(("cd %s && chmod 755 . && (%s) 2>&1"):format(where, (command:gsub("%$P", program)))))
  local lines, inside = {}, false
  for line in pipe:lines() do
    if line:find("^%-%-%-%-%-%-") then inside = not inside
    elseif not is_more(line, inside) then
      lines[#lines + 1] = line:gsub(" with PID %d+ on node %S+", "")
    end
  end
  pipe:close()
  os.execute("rm -r '" .. where .. "'")
  return table.concat(lines, "\n")
end

local file = assert(io.open(page_file))
local page = file:read("a")
file:close()
local first, last = "<!-- messages -->\n", "<!-- end of messages -->"
local _, begin = page:find(first, 1, true)
local stop = page:find(last, 1, true)
assert(begin and stop, page_file .. ": has no marks of the messages")
local before = page:sub(begin + 1, stop - 1)

local text = {}
for _, case in ipairs(cases) do
  local what, command, code = table.unpack(case)
  local head = ("**%s**"):format(what:gsub("^%l", string.upper))
  local kept = before:match(head:gsub("%p", "%%%0") .. "\n\n(.-```\n)\n")
  local block
  if not case.gpu or has_gpu() then
    block = ("```sh\n%s\n```\n```lua\n%s\n```\n```\n%s\n```\n"):format(command:gsub("%$P", "causeway"), code,
      read_by_the_user(command, code))
  else
    block = kept
  end
  if block then text[#text + 1] = head .. "\n\n" .. block .. "\n" end
  print(what .. (block and "" or ": not run, there is no GPU"))
end
file = assert(io.open(page_file, "w"))
file:write(page:sub(1, begin), "\n", table.concat(text), page:sub(stop))
assert(file:close())
