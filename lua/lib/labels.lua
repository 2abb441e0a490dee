-- Texts of pictures. What stands between dollar signs, "time $O(N \log N)$", is a formula as TeX would have it: in a
-- terminal it becomes Unicode, in a file gnuplot's enhanced text. All other text is shown as it is.
local causeway = ...

local symbols = {
  alpha = "α", beta = "β", gamma = "γ", delta = "δ", epsilon = "ε", varepsilon = "ε", zeta = "ζ", eta = "η",
  theta = "θ", iota = "ι", kappa = "κ", lambda = "λ", mu = "µ", nu = "ν", xi = "ξ", pi = "π", rho = "ρ", sigma = "σ",
  tau = "τ", upsilon = "υ", phi = "φ", varphi = "φ", chi = "χ", psi = "ψ", omega = "ω", Gamma = "Γ", Delta = "Δ",
  Theta = "Θ", Lambda = "Λ", Xi = "Ξ", Pi = "Π", Sigma = "Σ", Phi = "Φ", Psi = "Ψ", Omega = "Ω", ell = "ℓ",
  cdot = "·", times = "×", div = "÷", pm = "±", odot = "⊙", otimes = "⊗", oplus = "⊕", le = "≤", leq = "≤", ge = "≥",
  geq = "≥", ne = "≠", neq = "≠", approx = "≈", sim = "~", propto = "∝", ll = "≪", gg = "≫", ["in"] = "∈", to = "→",
  rightarrow = "→", leftarrow = "←", infty = "∞", partial = "∂", nabla = "∇", sum = "Σ", prod = "Π", int = "∫",
  sqrt = "√", top = "⊤", cdots = "⋯", ldots = "…", dots = "…", mid = "|", lVert = "‖", rVert = "‖", Vert = "‖",
  langle = "⟨", rangle = "⟩", lfloor = "⌊", rfloor = "⌋", lceil = "⌈", rceil = "⌉", quad = "  ",
}
local letters = {}
for _, symbol in pairs(symbols) do letters[symbol] = symbol == "µ" or symbol:find("^[\xCE\xCF]") ~= nil end
-- These stand for their own name; those behind them change a font that a label does not have.
for word in ("log ln exp min max sup inf det dim sin cos tan tanh arg lim softmax elu"):gmatch("%a+") do
  symbols[word] = word
end
for word in ("left right mathrm mathbf mathit mathcal mathbb text textrm operatorname"):gmatch("%a+") do
  symbols[word] = ""
end

local raised, lowered = {}, {}
local function pair_up(map, from, to)
  local shapes = {}
  for _, code in utf8.codes(to) do shapes[#shapes + 1] = utf8.char(code) end
  local n = 0
  for _, code in utf8.codes(from) do
    n = n + 1
    map[utf8.char(code)] = shapes[n]
  end
end
pair_up(raised, "0123456789+-−=()abcdefghijklmnoprstuvwxyzTN", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᵀᴺ")
raised["⊤"] = "ᵀ"
pair_up(lowered, "0123456789+-−=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ")

local deepest = 20 -- scripts of scripts; braces within braces past this are no formula

-- ── Reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

local read_group

-- One thing from position `at`: a list of parts, and the position behind it. Nil where braces do not match.
local function read_item(text, at, depth)
  if depth > deepest then return nil end
  local character = text:match("^[^\128-\191][\128-\191]*", at)
  if character == "{" then return read_group(text, at + 1, depth + 1) end
  if character ~= "\\" then return { character == "-" and "−" or character }, at + #character end
  local word = text:match("^%a+", at + 1)
  if not word then
    local next_one = text:sub(at + 1, at + 1)
    if next_one == "" then return { "\\" }, at + 1 end
    return { next_one:match("[,;:! ]") and " " or next_one }, at + 2
  end
  local behind = text:match("^ *()", at + 1 + #word)
  if word == "frac" then
    if behind > #text then return { "\\frac" }, behind end
    local over, under
    over, behind = read_item(text, behind, depth + 1)
    if not over or behind > #text then return nil end
    under, behind = read_item(text, behind, depth + 1)
    if not under then return nil end
    return { over, "/", under }, behind
  end
  local symbol = symbols[word]
  if not symbol then return { "\\" .. word }, at + 1 + #word end
  -- The blank behind the name of a letter only ends the name; operators and words keep it.
  return { symbol }, (symbol == "" or letters[symbol]) and behind or at + 1 + #word
end

-- Parts up to the closing brace, or to the end of the text where depth is 0.
function read_group(text, at, depth)
  if depth > deepest then return nil end
  local parts = {}
  while at <= #text do
    local character = text:sub(at, at)
    if character == "}" then
      if depth == 0 then return nil end
      return parts, at + 1
    end
    local script = (character == "^" or character == "_") and character
    if script then at = at + 1 end
    if at > #text then return nil end
    local item
    item, at = read_item(text, at, depth)
    if not item then return nil end
    if script then item.script = script end
    parts[#parts + 1] = item
  end
  if depth > 0 then return nil end
  return parts, at
end

-- ── Writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

local function plain_text(item)
  local out = {}
  for i, part in ipairs(item) do out[i] = type(part) == "string" and part or plain_text(part) end
  local text = table.concat(out)
  if not item.script then return text end
  local shapes, whole = item.script == "^" and raised or lowered, {}
  for _, code in utf8.codes(text) do
    local shape = shapes[utf8.char(code)]
    if not shape then return item.script .. (utf8.len(text) > 1 and "(" .. text .. ")" or text) end
    whole[#whole + 1] = shape
  end
  return table.concat(whole)
end

-- Every character that gnuplot's enhanced text gives a meaning loses it.
local function escaped(text) return (text:gsub("[\\{}^_@&~/*]", "\\%0")) end

local function enhanced_text(item)
  local out = {}
  for i, part in ipairs(item) do out[i] = type(part) == "string" and escaped(part) or enhanced_text(part) end
  local text = table.concat(out)
  return item.script and item.script .. "{" .. text .. "}" or text
end

--- A label as plain text, and as gnuplot's enhanced text where it has a formula, else nil.
function causeway._label(label)
  local text = tostring(label):gsub("[\0-\31\127]", " ")
  if not utf8.len(text) then text = text:gsub("[\128-\255]", "?") end
  local plain, enhanced, at, any = {}, {}, 1, false
  while true do
    -- As in Markdown: no blank behind the first sign and before the second, and no digit behind the second.
    local from, to, formula = text:find("%$([^%s$][^$]*)%$", at)
    if not from then break end
    local parts = not formula:find("%s$") and not text:find("^%d", to + 1) and read_group(formula, 1, 0)
    local before = text:sub(at, parts and from - 1 or to - 1)
    plain[#plain + 1], enhanced[#enhanced + 1] = before, escaped(before)
    if parts then
      any = true
      plain[#plain + 1], enhanced[#enhanced + 1] = plain_text(parts), enhanced_text(parts)
    end
    at = parts and to + 1 or to
  end
  plain[#plain + 1], enhanced[#enhanced + 1] = text:sub(at), escaped(text:sub(at))
  return table.concat(plain), any and table.concat(enhanced) or nil
end

--- A label as gnuplot reads it, in quotes, between which nothing but the quote has a meaning, and what is behind it.
function causeway._gnuplot_label(label)
  local plain, enhanced = causeway._label(label)
  return "'" .. (enhanced or plain):gsub("'", "''") .. (enhanced and "' enhanced" or "' noenhanced")
end
