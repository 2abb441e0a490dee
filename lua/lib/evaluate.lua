-- m:evaluate{mmlu =, longbench =, cloze =}: the answers of a model to questions in files, and how many are right.
--
-- Multiple choice: each choice is scored by its log-probability behind the prompt, and the largest is the answer. The
-- prompts of a subject begin with the same examples, which run once. LongBench: the model writes an answer behind the
-- prompt, and the metric of the task compares it.
local causeway = ...
local raise = causeway._raise
local methods = causeway._model_class()

causeway._options.evaluate = { mmlu = true, longbench = true, cloze = true, limit = true, chat = true, shots = true,
  subjects = true, split = { "test", "val" }, by = { "letter", "text" }, tasks = true, prompts = true, window = true }

-- What only one kind of questions takes.
local only_of = { shots = "mmlu", subjects = "mmlu", split = "mmlu", by = "mmlu", tasks = "longbench",
  prompts = "longbench", window = "longbench" }

-- ---- results ----

local Evaluation = { __name = "Evaluation" }
causeway._only_fields(Evaluation, { what = "an evaluation", list = true,
  fields = "all groups questions kind title note stopped model replaced origin" })

-- The bounds of a share of n by Wilson's score interval of 95 %. Of scores between 0 and 1, whose variance is at most
-- that of a share, it is rather too wide.
local function wilson(share, n)
  local z = 1.959963984540054
  local centre, half = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
  return math.max(0, (centre - half) / (1 + z * z / n)), math.min(1, (centre + half) / (1 + z * z / n))
end

-- The row of some questions: n of them asked, and the mean of their scores with its interval, by the name of `accuracy`
-- where there are choices.
local function row_of(name, asked)
  local row, sum, normalised = { subject = name, n = 0, left_out = 0, metric = asked[1].metric }, 0, 0
  for _, one in ipairs(asked) do
    if one.score then
      row.n, sum, normalised = row.n + 1, sum + one.score, normalised + (one.normalised or 0)
    else
      row.left_out = row.left_out + 1
    end
  end
  if row.n > 0 then
    row[row.metric and "score" or "accuracy"] = sum / row.n
    row.lower, row.upper = wilson(sum / row.n, row.n)
    if not row.metric then row.normalised = normalised / row.n end
  end
  return causeway._result(row, "a row of an evaluation", "accuracy score lower upper normalised metric")
end

local function percent(x) return string.format("%.1f", 100 * x) end

local function shown_row(row)
  local share = row.accuracy or row.score
  return { subject = row.subject, n = row.n, metric = row.metric, share = share and percent(share),
    interval = share and percent(row.lower) .. " – " .. percent(row.upper),
    normalised = row.normalised and percent(row.normalised) }
end

function Evaluation:table()
  local rows = {}
  for i, row in ipairs(self) do rows[i] = shown_row(row) end
  for _, group in ipairs(self.groups) do rows[#rows + 1] = shown_row(group) end
  if self.all and #self > 1 then rows[#rows + 1] = shown_row(self.all) end
  local interval = { key = "interval", title = "95 %", align = "right" }
  local columns = self.kind == "longbench"
    and { { key = "subject", title = "task" }, "n", "metric", { key = "share", title = "score %", align = "right" },
      interval }
    or { "subject", "n", { key = "share", title = "accuracy %", align = "right" }, interval,
      { key = "normalised", title = "normalised %", align = "right" } }
  return causeway.text_table(rows, { title = self.title, note = self.note, columns = columns })
end

causeway._as_table(Evaluation)

-- The group that a question is of, or nil: of MMLU one of its four, of a task of LongBench-E its length in words.
local function group_of(kind, one)
  if kind == "mmlu" then return causeway._mmlu_group[one.subject] end
  if kind ~= "longbench" or not one.subject:find("_e$") or math.type(one.length) ~= "integer" then return nil end
  return string.format("%s, %s", one.subject, one.length < 4000 and "0-4k" or one.length < 8000 and "4-8k" or "8k+")
end

-- Adds the rows by subject, by group where there are several, and of all.
local function sum_up(result)
  local names, of, groups, group_names = {}, {}, {}, {}
  for _, one in ipairs(result.questions) do
    if not of[one.subject] then
      names[#names + 1], of[one.subject] = one.subject, {}
    end
    table.insert(of[one.subject], one)
    local group = group_of(result.kind, one)
    if group then
      if not groups[group] then
        group_names[#group_names + 1], groups[group] = group, {}
      end
      table.insert(groups[group], one)
    end
  end
  for i, name in ipairs(names) do result[i] = row_of(name, of[name]) end
  result.groups = {}
  if #group_names > 1 then
    table.sort(group_names)
    for i, group in ipairs(group_names) do result.groups[i] = row_of(group, groups[group]) end
  end
  if result.kind ~= "longbench" then result.all = row_of("all", result.questions) end
end

-- ---- running ----

-- Which layers have something else in the place of their attention, as texts.
local function replaced_in(m)
  local list = {}
  for _, layer in ipairs(m:layers()) do
    if layer.replaced then
      list[#list + 1] = string.format("layer %d: %s%s", layer.layer, layer.replaced,
        layer.settings and ", " .. layer.settings or "")
    end
  end
  return list
end

-- By model what it was asked last, and what it takes to make an evaluation of it. After Ctrl-C no more code runs, so
-- that what is done has to be kept all the time.
local last = setmetatable({}, { __mode = "k" })

-- Adds a sentence to the notes about the questions that have the field, if there are such.
local function note_number(notes, text, questions, field)
  local n = 0
  for _, one in ipairs(questions) do n = n + (one[field] and 1 or 0) end
  if n > 0 then notes[#notes + 1] = string.format("%s: %d question%s", text, n, n == 1 and "" or "s") end
end

-- The evaluation of what was asked so far.
local function result_of(run)
  local asked, notes = run.asked, {}
  local result = setmetatable({ kind = run.kind, questions = asked, stopped = #asked < run.total,
    replaced = run.replaced, model = run.model, title = run.title, origin = causeway._origin() }, Evaluation)
  for _, path in ipairs(run.paths) do
    result.origin.data = result.origin.data or {}
    result.origin.data[path] = causeway._digest_of_data(path)
  end
  sum_up(result)
  if result.stopped then notes[1] = string.format("stopped after %d of %d questions", #asked, run.total) end
  note_number(notes, "left out, as longer than the model's context", asked, "too_long")
  note_number(notes, "with fewer shots, as the context holds no more", asked, "fewer_shots")
  note_number(notes, "cut in the middle", asked, "cut")
  result.note = table.concat(table.move(run.notes, 1, #run.notes, #notes + 1, notes), "; ")
  return result
end

-- Asks the questions one after the other; each has `subject` and a function `ask`, which fills in its score. paths are
-- the files that they came from, notes the lines below the table.
local function evaluation(m, kind, title, chat, questions, paths, notes)
  if chat then title = title .. ", in the chat template" end
  local replaced = replaced_in(m)
  if #replaced > 0 then title = string.format("%s, attention replaced in %d layers", title, #replaced) end
  local run = { kind = kind, title = title, replaced = replaced, model = m:about().path, paths = paths, notes = notes,
    asked = {}, total = #questions }
  last[m] = run
  local progress = causeway.progress(#questions, 0, 0.5)
  for i, one in ipairs(questions) do
    one.ask(one)
    one.ask = nil
    run.asked[i] = one
    progress:step(one.subject)
  end
  progress:finish()
  causeway._forget(m)
  return result_of(run)
end

--- What the last m:evaluate of the model came to, as far as it went.
function methods.evaluated(m)
  causeway._forget(m)
  local run = last[m]
  if not run or #run.asked == 0 then raise("evaluated: nothing was asked yet, expected m:evaluate before it") end
  return result_of(run)
end

-- ---- multiple choice ----

-- The first place of the largest.
local function best_of(values)
  local best = 1
  for i, value in ipairs(values) do
    if value > values[best] then best = i end
  end
  return best
end

-- Scores the choices of a question: `chosen` by log-probability, `chosen_normalised` by that over the bytes of the
-- choice, without the blank before it.
local function choose(m, one, prompt, choices, shared)
  local total, per_byte = {}, {}
  for i, s in ipairs(causeway._score(m, prompt, choices, shared)) do
    if s.log_probability ~= s.log_probability then
      raise(string.format("evaluate: the log-probability of choice %d of %s: line %d is NaN, expected a number", i,
        one.path, one.line))
    end
    total[i] = s.log_probability
    per_byte[i] = s.log_probability / math.max(1, #choices[i]:gsub("^ ", ""))
  end
  one.log_probabilities = total
  one.chosen, one.chosen_normalised = best_of(total), best_of(per_byte)
  one.score = one.chosen == one.answer and 1.0 or 0.0
  one.normalised = one.chosen_normalised == one.answer and 1.0 or 0.0
end

-- How many ids all of the lists begin with, but the last of each.
local function common_beginning(lists)
  local common = math.huge
  for _, ids in ipairs(lists) do
    common = math.min(common, #ids - 1)
    for i = 1, common do
      if ids[i] ~= lists[1][i] then
        common = i - 1
        break
      end
    end
  end
  return #lists > 1 and common or 0
end

local function example_text(question, by, answered)
  if by == "text" then
    return "Question: " .. question.text .. "\nAnswer:"
      .. (answered and " " .. question.choices[question.answer] .. "\n\n" or "")
  end
  local lines = { question.text }
  for i, letter in ipairs(causeway._letters) do lines[i + 1] = letter .. ". " .. question.choices[i] end
  return table.concat(lines, "\n") .. "\nAnswer:"
    .. (answered and " " .. causeway._letters[question.answer] .. "\n\n" or "")
end

-- The prompt of a question behind the first `shots` examples of its subject.
local function mmlu_prompt(subject, question, shots, by)
  local parts = { string.format("The following are %squestions (with answers) about %s.\n\n",
    by == "text" and "" or "multiple choice ", (subject.name:gsub("_", " "))) }
  for i = 1, shots do parts[i + 1] = example_text(subject.shots[i], by, true) end
  parts[#parts + 1] = example_text(question, by, false)
  return table.concat(parts)
end

-- What stands behind the prompt: " A" or " Paris"; of a chat, whose turn has begun, without the blank.
local function choices_of(question, by, chat)
  local list = {}
  for i, choice in ipairs(question.choices) do
    list[i] = (chat and "" or " ") .. (by == "text" and choice or causeway._letters[i])
  end
  return list
end

-- The prompt of a question, with as many examples as the context has room for; nil where it has not even for none. And
-- their number, and the ids.
local function fitting_prompt(m, subject, question, choices, options)
  local context, longest = m:about().context or math.huge, 0
  for _, choice in ipairs(choices) do longest = math.max(longest, #m:tokens(choice)) end
  for shots = options.shots, 0, -1 do
    local prompt = mmlu_prompt(subject, question, shots, options.by)
    if options.chat then prompt = m:prompt(prompt) end
    local ids = m:tokens(prompt)
    if #ids + longest <= context then return prompt, shots, ids end
  end
end

-- The prompts of a subject by question, and how many tokens those with all examples share.
local function prompts_of(m, subject, count, options)
  local prompts, full = {}, {}
  for i = 1, count do
    local question = subject.questions[i]
    local choices = choices_of(question, options.by, options.chat)
    local prompt, shots, ids = fitting_prompt(m, subject, question, choices, options)
    if shots == options.shots then full[#full + 1] = ids end
    prompts[i] = { text = prompt, shots = shots, choices = choices }
  end
  prompts.shared = common_beginning(full)
  return prompts
end

-- Adds the questions of a subject to the list. Its prompts are made when the first of them is asked.
local function add_subject(list, m, subject, options)
  local count, prompts = math.min(options.limit or math.huge, #subject.questions), nil
  for i = 1, count do
    local question = subject.questions[i]
    list[#list + 1] = { subject = subject.name, path = question.path, line = question.line, answer = question.answer,
      ask = function(one)
        prompts = prompts or prompts_of(m, subject, count, options)
        local prompt, shared = prompts[i], prompts.shared
        if i == count then prompts = nil end
        one.shots, one.too_long = prompt.shots, not prompt.text
        one.fewer_shots = prompt.text and prompt.shots < options.shots
        if prompt.text then
          choose(m, one, prompt.text, prompt.choices, prompt.shots == options.shots and shared or 0)
        end
      end }
  end
end

local function check_whole(name, value, least)
  if value == nil or math.type(value) == "integer" and value >= least then return end
  raise(string.format("%s: %s, expected a whole number of at least %d", name, causeway._literal(value), least))
end

local function check_one_of(name, value, ...)
  for _, word in ipairs({ ... }) do
    if value == word then return end
  end
  raise(string.format('%s: %s, expected "%s"', name, causeway._literal(value), table.concat({ ... }, '" or "')))
end

local function model_title(m) return m:about().path:match("([^/]+)/*$") end

local by_log_p = "accuracy: the choice with the largest log p; 95 %: Wilson's interval; normalised: log p over the "
  .. "bytes of a choice"

local function mmlu(m, given)
  local options = { shots = given.shots or 5, by = given.by or "letter", limit = given.limit, chat = given.chat }
  check_whole("shots", options.shots, 0)
  check_one_of("by", options.by, "letter", "text")
  local split = given.split or "test"
  check_one_of("split", split, "test", "val")
  local subjects, paths = causeway._mmlu_subjects(given.mmlu, split, given.subjects, options.shots)
  local questions = {}
  for _, subject in ipairs(subjects) do add_subject(questions, m, subject, options) end
  return evaluation(m, "mmlu", string.format("MMLU (%s), %d shot%s%s: %s", split, options.shots,
    options.shots == 1 and "" or "s", options.by == "text" and ", by the texts of the choices" or "", model_title(m)),
    given.chat, questions, paths, { by_log_p })
end

-- Texts as they are, with what may follow: no template and no example.
local function cloze(m, given)
  local list, path = causeway._choice_questions(given.cloze)
  local questions = {}
  for i = 1, math.min(given.limit or #list, #list) do
    local question = list[i]
    local prompt = given.chat and m:prompt(question.text) or question.text
    questions[i] = { subject = question.subject, path = question.path, line = question.line, answer = question.answer,
      ask = function(one) choose(m, one, prompt, question.choices, 0) end }
  end
  return evaluation(m, "cloze", string.format("Which word comes next, %s: %s", path and path:match("[^/]+$") or
    "held-out text", model_title(m)), given.chat, questions, { path }, { by_log_p })
end

-- ---- LongBench ----

-- The text, its middle left out where it has more tokens than the window; and whether it was.
local function cut_in_the_middle(m, text, window)
  local ids = m:tokens(text)
  if not window or #ids <= window then return text, false end
  local half, lead = window // 2, #m:tokens("")
  return m:text(table.move(ids, lead + 1, half, 1, {})) .. m:text(table.move(ids, #ids - half + 1, #ids, 1, {})), true
end

local function filled(form, record)
  return (form:gsub("{(%l+)}", function(key) return ({ context = record.context, input = record.input })[key] end))
end

local function ask_longbench(m, one, record, task, given)
  local text, cut = cut_in_the_middle(m, filled(task.form, record), given.window)
  if given.chat and not task.plain then text = m:prompt(text) end
  local answer = m:generate(text, { tokens = task.tokens, stream = false })
  one.text, one.cut = answer, cut
  if task.first_line then answer = answer:gsub("^\n+", ""):match("^[^\n]*") end
  local score = 0.0
  for _, truth in ipairs(record.answers) do
    score = math.max(score, causeway._answer_metrics[task.metric](answer, truth, record.all_classes))
  end
  one.score = score
end

-- The answer has to find room behind the prompt, with the marks of a chat.
local function window_for(m, task, given)
  if given.window then return given.window end
  local context = m:about().context
  if not context then return nil end
  local room = context - task.tokens - 64
  if room < 2 then
    raise(string.format("longbench: a context of %d tokens has no room for an answer of %d, expected a larger one",
      context, task.tokens))
  end
  return room
end

local function longbench(m, given)
  check_whole("window", given.window, 2)
  local tasks, left_out = causeway._longbench_tasks(given.longbench, given.tasks, given.limit)
  local forms = causeway._longbench_forms(given.prompts)
  local questions, paths, own = {}, {}, 0
  for _, one in ipairs(tasks) do
    local task = setmetatable({ form = forms[one.of] }, { __index = one.task })
    own = own + (forms[one.of] and 0 or 1)
    paths[#paths + 1] = one.path
    local room = { window = window_for(m, task, given), chat = given.chat }
    for _, record in ipairs(one.records) do
      questions[#questions + 1] = { subject = one.name, path = one.path, line = record.line, metric = task.metric,
        answers = record.answers, length = record.length,
        ask = function(question) ask_longbench(m, question, record, task, room) end }
    end
  end
  local notes = { "score: of the best of the right answers; 95 %: Wilson's interval, rather too wide" }
  if own > 0 then
    notes[#notes + 1] = "prompts in a plain form of this program, not LongBench's: prompts = its dataset2prompt.json"
  end
  if #left_out > 0 then
    notes[#notes + 1] = "left out, as their metric cuts Chinese into words: " .. table.concat(left_out, ", ")
  end
  return evaluation(m, "longbench", "LongBench: " .. model_title(m), given.chat, questions, paths, notes)
end

-- ---- the call ----

local kinds = { mmlu = mmlu, longbench = longbench, cloze = cloze }

-- A path with the home folder in the place of "~/".
local function with_home(path)
  local home = os.getenv("HOME")
  if type(path) ~= "string" or not home then return path end
  return (path:gsub("^~/", function() return home .. "/" end))
end

--- How many questions of a set the model answers as it should.
function methods.evaluate(m, options)
  causeway._check_options("evaluate", options)
  local given, kind = {}, nil
  for key, value in pairs(options or {}) do given[key] = with_home(value) end
  for _, name in ipairs({ "mmlu", "longbench", "cloze" }) do
    if given[name] ~= nil and given[name] ~= false then
      if kind then raise(string.format("evaluate: %s and %s, expected one of them", kind, name)) end
      kind = name
    end
  end
  if not kind then
    raise('evaluate: nothing to ask, expected mmlu = "path", longbench = "path" or cloze = true')
  end
  for name, of in pairs(only_of) do
    if given[name] ~= nil and of ~= kind then
      raise(string.format("%s: %s, expected nothing beside %s: it is of %s", name, causeway._literal(given[name]), kind,
        of))
    end
  end
  check_whole("limit", given.limit, 1)
  if given.chat ~= nil and type(given.chat) ~= "boolean" then
    raise("chat: expected true or false, got " .. causeway._noun(given.chat))
  end
  if m:about().no_tokenizer then raise("evaluate: the model takes ids alone: " .. m:about().no_tokenizer) end
  return kinds[kind](m, given)
end
