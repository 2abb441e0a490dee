-- Writes cloze.jsonl: 200 questions made of heldout.txt, which word comes next, with four choices each.
--
--   causeway experiments/data/make_cloze.lua
--
--   --save experiments/data     the folder that the file is written into
--
-- The text is cut into 200 equal parts; the first word in the second half of a part that can be asked for is the
-- answer, and what stands before it, 320 bytes or a little less, is the question. Asked for are words of at least 4
-- small letters that the text has 3 to 60 times. The other choices are drawn from those of these words that are at most
-- two letters longer or shorter, at most twice and at least half as frequent, and not in the question. The same file
-- comes out on every machine.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, { save = folder })
local questions, before, least_candidates = 200, 320, 8

local file = assert(io.open(folder .. "/heldout.txt", "rb"))
local text = file:read("a")
file:close()

-- Words with how often the text has them, in order of the alphabet.
local count, words = {}, {}
for word in text:gmatch("%a+") do count[word] = (count[word] or 0) + 1 end
for word, n in pairs(count) do
  if #word >= 4 and not word:find("%u") and n >= 3 and n <= 60 then words[#words + 1] = word end
end
table.sort(words)
local askable = {}
for _, word in ipairs(words) do askable[word] = true end

-- The numbers of a linear congruence (Knuth's MMIX), of which the upper bits are used: 1 to n.
local state = 2026
local function draw(n)
  state = state * 6364136223846793005 + 1442695040888963407
  return (state >> 33) % n + 1
end

-- Words that may stand beside the answer; they are not in the question.
local function candidates(answer, question)
  local seen, list = {}, {}
  for word in question:lower():gmatch("%a+") do seen[word] = true end
  for _, word in ipairs(words) do
    local ratio = count[word] / count[answer]
    if word ~= answer and not seen[word] and math.abs(#word - #answer) <= 2 and ratio >= 0.5 and ratio <= 2 then
      list[#list + 1] = word
    end
  end
  return list
end

-- The question at the first word from `from` on that can be asked for.
local function question_at(from)
  for first, word in text:gmatch(" ()(%l+)%f[^%a']", from) do
    local start = text:find("%f[%w]", math.max(1, first - 1 - before))
    local question = text:sub(start, first - 2)
    if askable[word] then
      local others = candidates(word, question)
      if #others >= least_candidates then return question, word, others end
    end
  end
end

local lines = {}
for i = 1, questions do
  local question, answer, others = question_at(math.floor((i - 0.5) * #text / questions))
  local choices = {}
  for c = 1, 3 do choices[c] = " " .. table.remove(others, draw(#others)) end
  local place = draw(4)
  table.insert(choices, place, " " .. answer)
  lines[i] = json_encode({ text = question, choices = choices, answer = place })
end
local out = assert(io.open(options.save .. "/cloze.jsonl", "wb"))
out:write(table.concat(lines, "\n"), "\n")
out:close()
print(string.format("%s/cloze.jsonl: %d questions", options.save, #lines))
