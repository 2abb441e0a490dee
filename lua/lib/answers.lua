-- How good an answer is beside the right one, from 0 to 1, as the tasks of LongBench measure it (THUDM/LongBench,
-- metrics.py, and what that calls: rouge 1.0.1, and fuzzywuzzy on Python's difflib). Small letters are made of those of
-- ASCII alone.
local causeway = ...

local metrics = {}

-- ---- words ----

-- Blanks that Python's split knows besides those of ASCII.
local blanks = { ["\u{85}"] = true, ["\u{A0}"] = true, ["\u{1680}"] = true, ["\u{2028}"] = true, ["\u{2029}"] = true,
  ["\u{202F}"] = true, ["\u{205F}"] = true, ["\u{3000}"] = true }
for code = 0x2000, 0x200A do blanks[utf8.char(code)] = true end

local function words_of(text)
  local words = {}
  text = text:gsub("[\xC2\xE1\xE2\xE3][\x80-\xBF]+", function(c) return blanks[c] and " " or nil end)
  for word in text:gmatch("[^%s\x1c-\x1f]+") do words[#words + 1] = word end
  return words
end

-- Small letters, without punctuation and articles.
local function plain_words(text)
  text = text:lower():gsub("%p", "")
  for _, article in ipairs({ "a", "an", "the" }) do
    text = text:gsub("%f[%w_\x80-\xff]" .. article .. "%f[^%w_\x80-\xff]", " ")
  end
  return words_of(text)
end

local function harmonic(precision, recall) return 2 * precision * recall / (precision + recall) end

--- Twice the words in both over the words of both, each as often as it stands there.
metrics["F1"] = function(answer, truth)
  local given, wanted = plain_words(answer), plain_words(truth)
  local left, same = {}, 0
  for _, word in ipairs(wanted) do left[word] = (left[word] or 0) + 1 end
  for _, word in ipairs(given) do
    if (left[word] or 0) > 0 then left[word], same = left[word] - 1, same + 1 end
  end
  return same == 0 and 0.0 or harmonic(same / #given, same / #wanted)
end

-- ---- ROUGE-L ----

-- Sentences are what stands between full stops, each a list of words; one of blanks alone is one empty word.
local function sentences_of(text)
  local sentences = {}
  for part in text:gmatch("[^.]+") do
    local words = words_of(part)
    sentences[#sentences + 1] = #words > 0 and words or { "" }
  end
  return sentences
end

-- Adds the words of a longest common subsequence of x and y to the set.
local function add_common(set, x, y)
  local table_of = { [0] = {} }
  for j = 0, #y do table_of[0][j] = 0 end
  for i = 1, #x do
    local above, row = table_of[i - 1], { [0] = 0 }
    for j = 1, #y do
      row[j] = x[i] == y[j] and above[j - 1] + 1 or math.max(above[j], row[j - 1])
    end
    table_of[i] = row
  end
  local i, j = #x, #y
  while i > 0 and j > 0 do
    if x[i] == y[j] then
      set[x[i]] = true
      i, j = i - 1, j - 1
    elseif table_of[i - 1][j] > table_of[i][j - 1] then
      i = i - 1
    else
      j = j - 1
    end
  end
end

local function size_of(set)
  local n = 0
  for _ in pairs(set) do n = n + 1 end
  return n
end

local function different_words(sentences)
  local set = {}
  for _, words in ipairs(sentences) do
    for _, word in ipairs(words) do set[word] = true end
  end
  return size_of(set)
end

--- F of a summary: the words that stand in a longest common subsequence of a sentence of one and a sentence of the
--- other, over the words of each; a word counts once, however often it stands there.
metrics["ROUGE-L"] = function(answer, truth)
  local given, wanted = sentences_of(answer), sentences_of(truth)
  if #given == 0 or #wanted == 0 then return 0.0 end
  local common = {}
  for _, x in ipairs(wanted) do
    for _, y in ipairs(given) do add_common(common, x, y) end
  end
  local n = size_of(common)
  local precision, recall = n / different_words(given), n / different_words(wanted)
  return 2 * precision * recall / (precision + recall + 1e-8)
end

-- ---- edit similarity ----

local function characters_of(text)
  local list = {}
  for character in text:gmatch(utf8.len(text) and utf8.charpattern or ".") do list[#list + 1] = character end
  return list
end

-- How many characters of a and b match by difflib: the longest common part, then likewise left and right of it. In a b
-- of 200 characters and more, those that make up over a hundredth of it begin no part.
local function matching(a, b)
  local places = {}
  for j, character in ipairs(b) do
    places[character] = places[character] or {}
    table.insert(places[character], j)
  end
  if #b >= 200 then
    for character, list in pairs(places) do
      if #list > #b // 100 + 1 then places[character] = nil end
    end
  end
  -- The longest common part of a[a1 … a2] and b[b1 … b2], the first of equals: where it begins, and its length.
  local function longest(a1, a2, b1, b2)
    local best_i, best_j, best = a1, b1, 0
    local before = {} -- length of the common part that ends at the last i and at j
    for i = a1, a2 do
      local now = {}
      for _, j in ipairs(places[a[i]] or {}) do
        if j > b2 then break end
        if j >= b1 then
          local n = (before[j - 1] or 0) + 1
          now[j] = n
          if n > best then best_i, best_j, best = i - n + 1, j - n + 1, n end
        end
      end
      before = now
    end
    while best_i > a1 and best_j > b1 and a[best_i - 1] == b[best_j - 1] do
      best_i, best_j, best = best_i - 1, best_j - 1, best + 1
    end
    while best_i + best <= a2 and best_j + best <= b2 and a[best_i + best] == b[best_j + best] do best = best + 1 end
    return best_i, best_j, best
  end
  local sum, parts = 0, { { 1, #a, 1, #b } }
  while #parts > 0 do
    local a1, a2, b1, b2 = table.unpack(table.remove(parts))
    local i, j, n = longest(a1, a2, b1, b2)
    if n > 0 then
      sum = sum + n
      if a1 < i and b1 < j then parts[#parts + 1] = { a1, i - 1, b1, j - 1 } end
      if i + n <= a2 and j + n <= b2 then parts[#parts + 1] = { i + n, a2, j + n, b2 } end
    end
  end
  return sum
end

-- To a whole number; a half to an even one.
local function rounded(x)
  local n = math.floor(x + 0.5)
  return n - x == 0.5 and n % 2 == 1 and n - 1 or n
end

--- Of the first line of the answer that is neither a comment nor a mark of code, in whole hundredths.
metrics["edit similarity"] = function(answer, truth)
  local line = ""
  for one in (answer:gsub("^\n+", "") .. "\n"):gmatch("(.-)\n") do
    if not one:find("[`#]") and not one:find("//", 1, true) then
      line = one
      break
    end
  end
  if line == truth then return 1.0 end
  local a, b = characters_of(line), characters_of(truth)
  if #a == 0 or #b == 0 then return 0.0 end
  return rounded(100 * (2.0 * matching(a, b) / (#a + #b))) / 100
end

-- ---- numbers and classes ----

-- The share of the numbers in the answer that are this one.
local function share_of(answer, wanted)
  local all, right = 0, 0
  for number in answer:gmatch("%d+") do
    all, right = all + 1, right + (number == wanted and 1 or 0)
  end
  return all == 0 and 0.0 or right / all
end

metrics["count"] = share_of

--- The truth is "Paragraph 3", or that in Chinese.
metrics["retrieval"] = function(answer, truth)
  return share_of(answer, truth:match("Paragraph (%d+)") or truth:match("段落(%d+)"))
end

--- 1 over the number of classes that the answer names, where the right one is among them. A class whose name is a part
--- of the right one's does not count; the one that follows it in the list is not looked at, as there.
metrics["accuracy"] = function(answer, truth, classes)
  local named = {}
  for _, class in ipairs(classes) do
    if answer:find(class, 1, true) then named[#named + 1] = class end
  end
  local i = 1
  while named[i] do
    if named[i] ~= truth and truth:find(named[i], 1, true) then table.remove(named, i) end
    i = i + 1
  end
  for _, class in ipairs(named) do
    if class == truth then return 1 / #named end
  end
  return 0.0
end

--- metric(answer, truth, classes) by its name.
causeway._answer_metrics = metrics
