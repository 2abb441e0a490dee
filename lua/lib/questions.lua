-- The files of evaluations: multiple choice as MMLU has it, or a list of texts and choices; the tasks of LongBench.
-- A file that is not as it should be is an error of one sentence with its name and line.
local causeway = ...
local raise = causeway._raise

local function bad(path, line, text) raise(string.format("%s: line %d %s", path, line, text), "I/O") end

local function text_of(path)
  local file, problem = io.open(path, "rb")
  if not file then raise("evaluate: cannot read " .. problem, "I/O") end
  local text = file:read("a")
  file:close()
  if not text then raise(path .. ": is no file that can be read", "I/O") end
  return text
end

-- The first `most` objects (nil: all) of a text with one on each line, each with its `line`.
local function objects_in(path, text, most)
  local list, number = {}, 0
  for line in (text:gsub("^\u{FEFF}", "") .. "\n"):gmatch("(.-)\r?\n") do
    number = number + 1
    if line:find("%S") then
      local good, object = pcall(causeway.json_decode, line)
      if not good then causeway._pass_on(object) end
      if not good or type(object) ~= "table" then bad(path, number, "is no object in JSON") end
      object.line = number
      list[#list + 1] = object
      if #list == most then break end
    end
  end
  if #list == 0 then raise(path .. ": holds no questions, expected one on each line", "I/O") end
  return list
end

local function is_texts(value)
  if type(value) ~= "table" or #value == 0 then return false end
  for _, one in ipairs(value) do
    if type(one) ~= "string" then return false end
  end
  return true
end

-- The first of the folders that there is.
local function folder_among(...)
  for _, folder in ipairs({ ... }) do
    if causeway._path_kind(folder) == "folder" then return folder end
  end
end

-- The wanted ones of the names that there are, in their order; nil wants all. A text is a list of one.
local function chosen(option, wanted, names, where)
  if wanted == nil then return names end
  if type(wanted) == "string" then wanted = { wanted } end
  if not is_texts(wanted) then raise(option .. ": expected a list of names, got " .. causeway._noun(wanted)) end
  for _, name in ipairs(wanted) do
    local there = false
    for _, known in ipairs(names) do there = there or known == name end
    if not there then
      local near = causeway._closest(name, names)
      raise(string.format("%s: nothing is named %s in %s%s", option, causeway._literal(name), where,
        near ~= "" and string.format(' (did you mean "%s"?)', near) or ""))
    end
  end
  return wanted
end

-- ---- MMLU ----

local letters = { "A", "B", "C", "D" }
causeway._letters = letters

-- The questions of a file without a line of names: question, four choices, letter.
local function mmlu_file(path)
  local list = {}
  for i, cells in ipairs(causeway._csv_records(path)) do
    if #cells ~= 6 then
      bad(path, cells.line, string.format("has %d cell%s, expected 6: the question, four choices and a letter", #cells,
        #cells == 1 and "" or "s"))
    end
    local answer = 0
    for j, letter in ipairs(letters) do
      if cells[6]:match("^%s*(.-)%s*$") == letter then answer = j end
    end
    if answer == 0 then
      bad(path, cells.line, string.format("has the answer %s, expected A, B, C or D", causeway._literal(cells[6])))
    end
    list[i] = { text = cells[1]:match("^%s*(.-)%s*$"), choices = table.move(cells, 2, 5, 1, {}), answer = answer,
      path = path, line = cells.line }
  end
  return list
end

--- The subjects in a folder as MMLU has it, dev/NAME_dev.csv and test/NAME_test.csv: a list of {name, shots (as many
--- examples of dev), questions}, and the paths that were read. split: "test" or "val".
function causeway._mmlu_subjects(path, split, wanted, shots)
  if type(path) ~= "string" then raise("mmlu: expected the path of a folder, got " .. causeway._noun(path)) end
  local folder = folder_among(path .. "/" .. split, path .. "/data/" .. split)
  if not folder then
    raise(string.format('mmlu: %s holds no folder %s, expected the folder "data" of MMLU, with dev/NAME_dev.csv and '
      .. "%s/NAME_%s.csv", path, split, split, split), "I/O")
  end
  local names = {}
  for _, name in ipairs(causeway._files_in(folder)) do names[#names + 1] = name:match("^(.+)_" .. split .. "%.csv$") end
  if #names == 0 then raise(string.format("mmlu: %s holds no file NAME_%s.csv", folder, split), "I/O") end
  local subjects, paths = {}, {}
  for i, name in ipairs(chosen("subjects", wanted, names, folder)) do
    local file = string.format("%s/%s_%s.csv", folder, name, split)
    paths[#paths + 1] = file
    local subject = { name = name, questions = mmlu_file(file), shots = {} }
    if #subject.questions == 0 then raise(file .. ": holds no questions, expected one on each line", "I/O") end
    if shots > 0 then
      local dev = string.format("%s/dev/%s_dev.csv", folder:sub(1, -#split - 2), name)
      paths[#paths + 1] = dev
      local examples = mmlu_file(dev)
      if #examples < shots then
        raise(string.format("%s: holds %d example%s, expected %d, as many as shots", dev, #examples,
          #examples == 1 and "" or "s", shots), "I/O")
      end
      subject.shots = table.move(examples, 1, shots, 1, {})
    end
    subjects[i] = subject
  end
  return subjects, paths
end

-- The four groups of its authors.
local groups = {
  STEM = [[abstract_algebra astronomy college_biology college_chemistry college_computer_science college_mathematics
    college_physics computer_security conceptual_physics electrical_engineering elementary_mathematics
    high_school_biology high_school_chemistry high_school_computer_science high_school_mathematics high_school_physics
    high_school_statistics machine_learning]],
  humanities = [[formal_logic high_school_european_history high_school_us_history high_school_world_history
    international_law jurisprudence logical_fallacies moral_disputes moral_scenarios philosophy prehistory
    professional_law world_religions]],
  ["social sciences"] = [[econometrics high_school_geography high_school_government_and_politics
    high_school_macroeconomics high_school_microeconomics high_school_psychology human_sexuality
    professional_psychology public_relations security_studies sociology us_foreign_policy]],
  other = [[anatomy business_ethics clinical_knowledge college_medicine global_facts human_aging management marketing
    medical_genetics miscellaneous nutrition professional_accounting professional_medicine virology]],
}

--- The name of the group -> true of each subject in it; nil of one that MMLU has not.
causeway._mmlu_group = {}
for group, names in pairs(groups) do
  for name in names:gmatch("%S+") do causeway._mmlu_group[name] = group end
end

-- ---- texts and choices ----

-- The one that travels inside the program.
local cloze = "experiments/data/cloze.jsonl"

--- The questions of a file with {"text": ..., "choices": [...], "answer": n} on each line, n from 1: a list; and its
--- path, which is nil of those that travel inside the program (path true).
function causeway._choice_questions(path)
  if path ~= true and type(path) ~= "string" then
    raise("cloze: expected true or the path of a .jsonl file, got " .. causeway._noun(path))
  end
  local own = path == true
  if own then path = cloze end
  local list = objects_in(path, own and causeway._texts[cloze] or text_of(path))
  for i, object in ipairs(list) do
    if type(object.text) ~= "string" then bad(path, object.line, 'has no text in "text"') end
    if not is_texts(object.choices) or #object.choices < 2 then
      bad(path, object.line, 'has no list of two texts or more in "choices"')
    end
    if math.type(object.answer) ~= "integer" or not object.choices[object.answer] then
      bad(path, object.line, string.format('has the answer %s, expected the place of a choice, from 1 to %d',
        causeway._literal(object.answer), #object.choices))
    end
    list[i] = { text = object.text, choices = object.choices, answer = object.answer, path = path, line = object.line,
      subject = type(object.subject) == "string" and object.subject or "cloze" }
  end
  return list, not own and path or nil
end

-- ---- LongBench ----

-- By task: the metric, how many tokens an answer may have, and the form of the prompt. The answer of a task with
-- `first_line` ends with its line; no chat template is put around one that is `plain`.
local tasks = {}
local function add_tasks(metric, form, names, more)
  for name, tokens in pairs(names) do
    tasks[name] = { metric = metric, form = form, tokens = tokens }
    for key, value in pairs(more or {}) do tasks[name][key] = value end
  end
end
local question = "{context}\n\nQuestion: {input}\nAnswer:"
local examples = { first_line = true, plain = true }
add_tasks("F1", question, { narrativeqa = 128, qasper = 128, multifieldqa_en = 64, hotpotqa = 32, ["2wikimqa"] = 32,
  musique = 32 })
add_tasks("F1", "{context}\n\n{input}", { triviaqa = 32 }, examples)
add_tasks("ROUGE-L", "{context}\n\nSummary:", { gov_report = 512, multi_news = 512 })
add_tasks("ROUGE-L", question, { qmsum = 512 })
add_tasks("ROUGE-L", "{context}\n\n{input}", { samsum = 128 }, examples)
add_tasks("accuracy", "{context}\n{input}", { trec = 64, lsht = 64 }, examples)
add_tasks("count", "{context}\n\nThe number of different paragraphs above is: ", { passage_count = 32 })
add_tasks("retrieval", "{context}\n\nSummary: {input}\n\nThis is the summary of: ",
  { passage_retrieval_en = 32, passage_retrieval_zh = 32 })
add_tasks("edit similarity", "{context}{input}", { lcc = 64, ["repobench-p"] = 64 }, { plain = true })

-- Tasks whose metric cuts Chinese into words, which is not done here.
local not_here = { multifieldqa_zh = true, dureader = true, vcsum = true }

local function check_record(path, object, task)
  for _, key in ipairs({ "context", "input" }) do
    if type(object[key]) ~= "string" then bad(path, object.line, string.format('has no text in "%s"', key)) end
  end
  if not is_texts(object.answers) then bad(path, object.line, 'has no list of texts in "answers"') end
  if task.metric == "accuracy" and not is_texts(object.all_classes) then
    bad(path, object.line, 'has no list of texts in "all_classes"')
  end
  if task.metric == "retrieval" then
    for _, answer in ipairs(object.answers) do
      if not (answer:find("Paragraph %d") or answer:find("段落%d")) then
        bad(path, object.line, string.format("has the answer %s, expected Paragraph and a number",
          causeway._literal(answer)))
      end
    end
  end
end

-- The task that a file is of by its name, "qasper.jsonl" or (of LongBench-E) "qasper_e.jsonl", or else by its records;
-- and what its row is called.
local function task_name(path, records)
  local file = path:match("([^/]+)%.jsonl$") or path:match("[^/]+$")
  local name = file:gsub("_e$", "")
  if tasks[name] or not_here[name] or type(records[1].dataset) ~= "string" then return name, file end
  local dataset = records[1].dataset
  return (dataset:gsub("_e$", "")), dataset
end

-- The first `most` records of a file, with its task.
local function longbench_file(path, most)
  local records = objects_in(path, text_of(path), most)
  local name, called = task_name(path, records)
  if not_here[name] then return { name = called, path = path } end
  local task = tasks[name]
  if not task then
    local names = {}
    for known in pairs(tasks) do names[#names + 1] = known end
    table.sort(names)
    bad(path, records[1].line, string.format("is of %s, which is no task of LongBench known here: %s",
      causeway._literal(name), table.concat(names, ", ")))
  end
  for _, object in ipairs(records) do check_record(path, object, task) end
  return { name = called, of = name, path = path, records = records, task = task }
end

--- The tasks in a .jsonl file of LongBench or in a folder of them, with the first `most` records of each (nil: all): a
--- list of {name, of (its name in LongBench), path, records, task}, and of names that were left out because their
--- metric is not here.
function causeway._longbench_tasks(path, wanted, most)
  if type(path) ~= "string" then
    raise("longbench: expected the path of a folder or a .jsonl file, got " .. causeway._noun(path))
  end
  local files = {}
  if causeway._path_kind(path) == "file" then
    files[1] = path
  else
    local folder = folder_among(path .. "/data", path)
    if not folder then raise("longbench: " .. path .. " is neither a file nor a folder", "I/O") end
    for _, name in ipairs(causeway._files_in(folder)) do
      if name:find("%.jsonl$") then files[#files + 1] = folder .. "/" .. name end
    end
    if #files == 0 then raise("longbench: " .. folder .. " holds no .jsonl files", "I/O") end
    local names, path_of = {}, {}
    for i, file in ipairs(files) do
      names[i] = file:match("([^/]+)%.jsonl$")
      path_of[names[i]] = file
    end
    for i, name in ipairs(chosen("tasks", wanted, names, folder)) do files[i] = path_of[name] end
    if wanted then files = table.move(files, 1, type(wanted) == "table" and #wanted or 1, 1, {}) end
  end
  local list, left_out = {}, {}
  for _, file in ipairs(files) do
    local one = longbench_file(file, most)
    if one.task then list[#list + 1] = one else left_out[#left_out + 1] = one.name end
  end
  if #list == 0 then
    raise(string.format("longbench: the metric of %s cuts Chinese into words, which is not done here: expected other "
      .. "tasks", table.concat(left_out, ", ")))
  end
  return list, left_out
end

--- The forms of prompts by task: from a .json file as LongBench has it (config/dataset2prompt.json), or a table.
function causeway._longbench_forms(given)
  if given == nil then return {} end
  local forms = given
  if type(given) == "string" then forms = causeway.load(given) end
  if type(forms) ~= "table" then
    raise("prompts: expected the path of a .json file, as config/dataset2prompt.json of LongBench, or a table, got "
      .. causeway._noun(forms))
  end
  for name, form in pairs(forms) do
    if type(form) ~= "string" or not form:find("{context}", 1, true) then
      raise(string.format("prompts: that of %s is %s, expected a text with {context} in it", tostring(name),
        causeway._literal(form)))
    end
  end
  return forms
end
