-- The long runs behind docs/reliability.md: each counts its cases and faults itself; the counts are kept in
-- tests/long/counts.csv with the tree, the date and the time they took, and the table of the page is made from them.
--
--   causeway tests/long/run.lua BUILD               all, with the programs of the folder BUILD (./lab test --long)
--   causeway tests/long/run.lua BUILD --only npy    that of this name, else those whose name has the word
--   causeway tests/long/run.lua BUILD --needs npy   only names the programs that these need, a line each
--   causeway tests/long/run.lua --table             only makes the table anew
--
-- CAUSEWAY_LONG_MINUTES is the time for each of the runs that have no end of their own (10); a fuzzer ends before it
-- behind ten million files, and the prompt behind a million sequences of keys. All processors share these out, and the
-- tests for aarch64.
-- CAUSEWAY_LONG_PLACES is how many places of each example are tried, at random, by those that could try all (all).
-- Runs that are shortened by one of them keep neither counts nor inputs.
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local counts_file, page_file = here .. "/counts.csv", here .. "/../../docs/reliability.md"

local function refuse(...)
  io.stderr:write(string.format(...), "\n")
  os.exit(2)
end

-- The number that the environment variable has, up to 10^6.
local function asked(name, default, whole)
  local text = os.getenv(name)
  if not text or text == "" then return default end
  local n = tonumber(text)
  if not n or not (n >= 0 and n <= 1e6) or whole and n ~= math.floor(n) then
    refuse("%s: %s, expected a %s of 0 to 10^6", name, text, whole and "whole number" or "number")
  end
  return n
end
local whole = 10  -- minutes
local minutes, most = asked("CAUSEWAY_LONG_MINUTES", whole), asked("CAUSEWAY_LONG_PLACES", 0, true)
local seconds = math.max(1, math.floor(60 * minutes))
local shortened = minutes < whole and "CAUSEWAY_LONG_MINUTES" or most > 0 and "CAUSEWAY_LONG_PLACES" or nil

local no_gpu = 3  -- the exit status of a program that needs one

-- A run: what it does, its command (in which words with $ are replaced), how its last lines are read, and the programs
-- that it needs (causeway-tests). ./lab looks for the names of all runs in this text.
local function in_words(text)
  local cases, faults = text:match(".*%f[%d](%d+) cases, .-(%d+) faults")  -- of the last line that has them
  return tonumber(cases), tonumber(faults)
end

-- The sums over those that ran at once, each of which ends with such a line.
local function of_shares(text)
  local cases, faults
  for tried, found in text:gmatch(" calls in them, (%d+) cases, %d+ refused, (%d+) faults") do
    cases, faults = (cases or 0) + tried, (faults or 0) + tonumber(found)
  end
  return cases, faults
end

local function of_tests(text)
  local tests, faults
  for passed, failed in text:gmatch("%f[%d](%d+) passed, (%d+) failed") do
    tests, faults = (tests or 0) + passed + failed, (faults or 0) + tonumber(failed)
  end
  return tests, faults
end

local function of_fuzzers(text, status)
  local files
  for count in text:gmatch("number_of_executed_units:%s*(%d+)") do files = (files or 0) + tonumber(count) end
  return files, status == 0 and 0 or 1
end

-- A share for each processor. Those that connect GPUs run one by one.
local function in_shares(program)
  return "seq $PROCESSORS | xargs -P $PROCESSORS -I{} $BUILD/tests/" .. program ..
    " --share {}/$PROCESSORS --most $MOST"
end
local refused = in_shares("causeway-gpu-faults")
local typed = "$BUILD/tests/causeway-keys --at-once $PROMPTS --seconds $SECONDS --sequences $KEYS "
local runs = {
  { name = "tests", what = "tests, each with inputs of its own", read = of_tests,
    command = "$BUILD/tests/causeway-tests" },
  { name = "aarch64", what = "tests of core and proofs, built for aarch64 and run under qemu-user", read = of_tests,
    before = "rm -rf $BUILD-aarch64/shares; mkdir $BUILD-aarch64/shares",
    command = "cd $BUILD-aarch64 && export QEMU_LD_PREFIX=$PWD/root && " ..
      "qemu-aarch64 tests/causeway-tests --list-test-names-only | sed 's/,/\\\\,/g' | " ..
      "split -n r/$SHARES - shares/ && ls shares | " ..
      "xargs -P $PROCESSORS -I{} sh -c 'qemu-aarch64 tests/causeway-tests -f shares/{} >shares/{}.log 2>&1'; " ..
      "status=$?; tail -qn 200 shares/*.log; exit $status",
    needs = { "$BUILD-aarch64/tests/causeway-tests" } },
  { name = "allocations", what = "one allocation refused, or it and all later ones, in an example of every function",
    read = of_shares, command = in_shares("causeway-faults"),
    needs = { "$BUILD/tests/causeway-faults" } },
  { name = "threads", what = "the same with starts of threads", read = in_words,
    command = "$BUILD/tests/causeway-faults --threads", needs = { "$BUILD/tests/causeway-faults" } },
  { name = "cuda", what = "one call of CUDA, cuBLAS or NCCL refused, or it and all later ones, in calls of all kinds",
    read = of_shares, command = refused .. " --devices 1", gpu = true,
    needs = { "$BUILD/tests/causeway-gpu-faults" } },
  { name = "cuda-two", what = "the same in calls that take two GPUs", read = in_words,
    command = "$BUILD/tests/causeway-gpu-faults --only 'on 2' --most $MOST",
    needs = { "$BUILD/tests/causeway-gpu-faults" } },
  { name = "pretended", what = "the same on GPUs that do not exist, whose kernels do nothing", read = of_shares,
    command = refused .. " --pretend",
    needs = { "$BUILD/tests/causeway-gpu-faults" } },
  { name = "poison", what = "one NaN, Inf or 1e30 in an input of attention or of a gradient, on the CPU",
    read = in_words, command = "$BUILD/tests/causeway-tests '[.poison-long]'" },
  { name = "gpu-poison", what = "the same in attention and gradients on a GPU", read = in_words,
    command = "CAUSEWAY_POISON_COUNTS=1 $BUILD/tests/causeway-gpu-tests '[gpu-poison]'", gpu = true,
    needs = { "$BUILD/tests/causeway-gpu-tests" } },
  { name = "bits", what = "a call with another end and among other texts, bit for bit, on the CPU", read = in_words,
    command = "$BUILD/tests/causeway-tests '[.bits-long]'" },
  { name = "gpu-bits", what = "the same on a GPU", read = in_words,
    command = "$BUILD/tests/causeway-gpu-tests '[.gpu-bits-long]'", gpu = true,
    needs = { "$BUILD/tests/causeway-gpu-tests" } },
  { name = "gpu-shapes", what = "a random call on a GPU, ten times, beside the definition on the CPU", read = in_words,
    command = "$BUILD/tests/causeway-gpu-tests '[.gpu-shapes-long]'", gpu = true,
    needs = { "$BUILD/tests/causeway-gpu-tests" } },
  { name = "keys", what = "sequences of keys at the prompt, with libedit", read = in_words,
    command = typed .. "$BUILD/tests/causeway-with-libedit",
    needs = { "$BUILD/tests/causeway-keys", "$BUILD/tests/causeway-with-libedit" } },
  { name = "keys-readline", what = "the same with GNU Readline", read = in_words,
    command = typed .. "$BUILD/causeway", needs = { "$BUILD/tests/causeway-keys" } },
  { name = "adversary", what = "inputs that climb towards a stated bound on an error", read = in_words,
    command = "CAUSEWAY_ADVERSARY_KEEPS=$KEEPS CAUSEWAY_ADVERSARY_SECONDS=$SHARE " ..
      "$BUILD/tests/causeway-tests '[.adversary-long]'" },
}
local made = " made by a fuzzer"
local fuzzed = { { name = "npy" }, { name = "npz" }, { name = "safetensors" }, { name = "csv" }, { name = "json" },
  { name = "gguf" }, { name = "model_json", what = "a model's config.json and index of its files" },
  { name = "tokenizer", what = "tokenizer.json, used on a text" },
  { name = "words", what = "texts of up to 512 bytes to a tokenizer and back", options = "-max_len=512 " } }
for _, fuzzer in ipairs(fuzzed) do
  local format, what = fuzzer.name, fuzzer.what or "files of the format ." .. fuzzer.name
  runs[#runs + 1] = { name = format, what = what .. made, read = of_fuzzers,
    command = (("seq $PROCESSORS | xargs -P $PROCESSORS -I{} sh -c 'exec $FUZZ/tests/fuzz/NAME_fuzz " ..
      "-max_total_time=$SECONDS -runs=$FILES -rss_limit_mb=1024 -malloc_limit_mb=256 -print_final_stats=1 " ..
      (fuzzer.options or "") .. "$FUZZ/new-NAME tests/fuzz/corpus/NAME >$FUZZ/NAME-{}.log 2>&1'; status=$?; " ..
      "tail -qn 80 $FUZZ/NAME-*.log; exit $status"):gsub("NAME", format)),
    needs = { "$FUZZ/tests/fuzz/" .. format .. "_fuzz" },
    before = ("mkdir -p $FUZZ/new-NAME; rm -f $FUZZ/NAME-*.log"):gsub("NAME", format) }
end

local columns = { "name", "cases", "faults", "seconds", "tree", "date" }

local function read_counts()
  local counts, file = {}, io.open(counts_file)
  if not file then return counts end
  for line in file:lines() do
    local row, i = {}, 0
    for value in (line .. ","):gmatch("(.-),") do
      i = i + 1
      row[columns[i] or ""] = value
    end
    if row.name ~= "name" then counts[row.name] = row end
  end
  file:close()
  return counts
end

local function write_counts(counts)
  local file = assert(io.open(counts_file, "w"))
  file:write(table.concat(columns, ","), "\n")
  for _, run in ipairs(runs) do
    local row, values = counts[run.name], {}
    for i, column in ipairs(columns) do values[i] = row and row[column] end
    if row then file:write(table.concat(values, ","), "\n") end
  end
  assert(file:close())
end

-- 1234567 as 1,234,567.
local function grouped(n)
  local text = tostring(n):reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (text:gsub("^,", ""))
end

local function lasted(time)
  time = tonumber(time)
  return time < 100 and ("%.0f s"):format(time) or ("%.0f min"):format(time / 60)
end

local function table_text(counts)
  local lines = { "| what | cases | faults | took | tree | date |", "|---|---:|---:|---:|---|---|" }
  for _, run in ipairs(runs) do
    local c = counts[run.name]
    local cells = c and { grouped(c.cases), grouped(c.faults), lasted(c.seconds), "`" .. c.tree .. "`", c.date }
      or { "not run yet", "", "", "", "" }
    lines[#lines + 1] = ("| `%s`: %s | %s |"):format(run.name, run.what, table.concat(cells, " | "))
  end
  return table.concat(lines, "\n")
end

-- Puts the table between the two marks of the page.
local function write_page(counts)
  local file = assert(io.open(page_file))
  local page = file:read("a")
  file:close()
  local first, last = "<!-- counts -->\n", "<!-- end of counts -->"
  local _, begin = page:find(first, 1, true)
  local stop = page:find(last, 1, true)
  assert(begin and stop, page_file .. ": has no marks of the table of counts")
  file = assert(io.open(page_file, "w"))
  file:write(page:sub(1, begin), table_text(counts), "\n", page:sub(stop))
  assert(file:close())
end

local lines_kept = 20000  -- the ends of what all fuzzers of a format wrote

local function output_of(command)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local last = {}
  for line in pipe:lines() do
    last[#last + 1] = line
    if #last > lines_kept then table.remove(last, 1) end
  end
  local _, _, status = pipe:close()
  return table.concat(last, "\n"), status
end

local function exists(path)
  local file = io.open(path)
  return file ~= nil and file:close()
end

if arg[1] == "--table" and not arg[2] then
  write_page(read_counts())
  return
end

local build, option, word = arg[1], arg[2], arg[3] or ""
local understood = not option or option == "--needs" or option == "--only" and arg[3]
if not build or build:find("^%-") or not understood or arg[4] then
  refuse("run.lua: %s, expected BUILD, BUILD --only NAME, BUILD --needs [NAME] or --table", table.concat(arg, " "))
end
local fuzz = build .. "-fuzz"
local processors = tonumber((output_of("nproc"))) or 1
local prompts = math.max(6, 3 * processors)  -- which wait for one another's answers most of the time
-- The adversary climbs some hundred bounds.
local places = { BUILD = build, FUZZ = fuzz, SECONDS = tostring(seconds), SHARE = ("%g"):format(seconds / 60),
  MOST = ("%d"):format(most), PROCESSORS = tostring(processors), SHARES = tostring(8 * processors),
  FILES = ("%d"):format(1e7 // processors + 1), PROMPTS = tostring(prompts), KEEPS = shortened and "no" or "yes",
  KEYS = ("%d"):format(1e6 // prompts + 1) }
local function filled(text) return (text:gsub("%$(%u+)", places)) end

local chosen, exact = {}, {}
for _, run in ipairs(runs) do
  if run.name:find(word, 1, true) then chosen[#chosen + 1] = run end
  if run.name == word then exact[1] = run end
end
if exact[1] then chosen = exact end
if #chosen == 0 then
  local names = {}
  for i, run in ipairs(runs) do names[i] = run.name end
  refuse("%s: no run has \"%s\" in its name: %s", option, word, table.concat(names, ", "))
end
-- The programs that a run needs.
local function needed(run)
  local programs = {}
  for i, program in ipairs(run.needs or { "$BUILD/tests/causeway-tests" }) do programs[i] = filled(program) end
  return programs
end

if option == "--needs" then
  local told = {}
  for _, run in ipairs(chosen) do
    for _, program in ipairs(needed(run)) do
      if not told[program] then print(program) end
      told[program] = true
    end
  end
  return
end
-- The commit, and a + where anything differs from it but what the runs write themselves.
local function tree_here()
  local git = "git -C '" .. here .. "/../..' "
  local commit, failed = output_of(git .. "describe --always --exclude '*'")
  if failed ~= 0 then return os.getenv("CAUSEWAY_COMMIT") or "unknown" end
  local written = "':!tests/long/counts.csv' ':!docs/reliability.md' ':!tests/proofs/worst_inputs.txt'"
  local _, differs = output_of(git .. "diff --quiet HEAD -- . " .. written)
  return commit:match("%S+") .. (differs ~= 0 and "+" or "")
end
local tree = tree_here()

-- Runs one; its faults, or nil and why it was not run.
local function counted(run)
  for _, program in ipairs(needed(run)) do
    if not exists(program) then
      return nil, program
        .. " was not built (fuzzers need clang, tests of a GPU nvcc, those for aarch64 its compiler and qemu-user)"
    end
  end
  if run.gpu and not has_gpu() then return nil, "no GPU was found" end
  if run.before then output_of(filled(run.before)) end
  local start = os.time()
  local text, status = output_of(filled(run.command))
  if status == no_gpu then return nil, "no GPU was found" end
  local cases, found = run.read(text, status)
  local took = os.time() - start
  if not cases then
    print("it ended without a count, and the count that is kept stays:\n" .. text)
    return 1
  elseif cases == 0 and status == 0 then
    return nil, "nothing of it can be tried here"
  elseif status ~= 0 and found == 0 then
    found = 1
  end
  print(("%s cases, %s faults, %s"):format(grouped(cases), grouped(found), lasted(took)))
  if found > 0 then print(text) end
  if shortened then return found end
  local counts = read_counts()
  counts[run.name] = { name = run.name, cases = cases, faults = found, seconds = took, tree = tree,
    date = os.date("!%Y-%m-%d") }
  write_counts(counts)
  write_page(counts)
  return found
end

local faults, tried, begun = 0, 0, os.time()
for i, run in ipairs(chosen) do
  io.write(("%2d/%d  %-12s "):format(i, #chosen, run.name))
  io.flush()
  local found, why = counted(run)
  if found then tried = tried + 1 else print("skipped: " .. why) end
  faults = faults + (found or 0)
end
print(("%d faults in %s, %d of %d not run"):format(faults, lasted(os.time() - begun), #chosen - tried, #chosen))
if shortened then print("nothing of this is kept, since " .. shortened .. " shortened it") end
os.exit(faults == 0 and tried > 0)
