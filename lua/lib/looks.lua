-- How curves look: a colour and a mark for every method, the same in all figures, files and terminals alike.
local causeway = ...

--- Colours that colour-blind readers tell apart, after Okabe and Ito: in a file on white, in a file on a dark page, and
--- in a terminal, of its 256 colours those that can be read on black and on white.
causeway._palette = {
  { file = "#0072b2", dark = "#4fa8e0", terminal = 32 },
  { file = "#d55e00", dark = "#f0803c", terminal = 166 },
  { file = "#009e73", dark = "#2fc79a", terminal = 35 },
  { file = "#cc79a7", dark = "#e29bc4", terminal = 169 },
  { file = "#56b4e9", dark = "#8fd3ff", terminal = 37 },
  { file = "#e69f00", dark = "#f5b83d", terminal = 136 },
  { file = "#7a4fbf", dark = "#b195f0", terminal = 98 },
  { file = "#a8234a", dark = "#ff7f9c", terminal = 161 },
}
--- Their marks: gnuplot's number of the type, and the character in a terminal.
causeway._marks = {
  { 7, "●" }, { 5, "■" }, { 9, "▲" }, { 13, "◆" }, { 11, "▼" }, { 2, "×" }, { 6, "○" }, { 4, "□" },
}

-- Names that stand in one figure have different places; a test holds that no method of the library is missing.
local families = {
  {
    "fleet", "vanilla", "lightning-attention-2", "causal-dot-product", "recursion", "block-based", "hybrid",
    "inner-product", "outer-product", "outer-product-blockwise", "row-based", "fleet-untiled",
  },
  {
    "favor+", "svd", "nystrom", "linformer", "skyformer", "transformer-vq", "rsvd", "skeinformer", "rfa", "lara",
    "hyper", "taylor", "hedgehog",
  },
  { "linear", "gated", "delta", "gated_delta", "gated, channels", "gated_delta, channels" },
  { "flash", "standard" },
  { "tree", "ring" },
}
local places = {}
for _, names in ipairs(families) do
  for place, name in ipairs(names) do places[name] = place end
end

-- The place of a label in its family: that of the longest name which the label is, or begins with ("svd ↓", "ring, d =
-- 64"). Nil for a label of another kind.
local function place_of(label)
  if places[label] then return places[label] end
  local longest, place = 0, nil
  for name, at in pairs(places) do
    local behind = label:sub(#name + 1, #name + 1)
    if #name > longest and label:sub(1, #name) == name and (behind == " " or behind == ",") then
      longest, place = #name, at
    end
  end
  return place
end

--- Gives every curve of a figure its look, a number from 1. The same label looks the same in every panel: a method as
--- the table above says, where no other curve of the figure has taken that look; all others get what is left, in order.
--- A curve that is `like` another, whose label that is, looks as it does.
function causeway._give_looks(panels)
  local known, used = {}, {}
  for _, panel in ipairs(panels) do
    for _, curve in ipairs(panel.curves) do
      local look = curve.label and not curve.like and not known[curve.label] and place_of(curve.label)
      if look and not used[look] then known[curve.label], used[look] = look, true end
    end
  end
  local free = 1
  local function next_free()
    while used[free] do free = free + 1 end
    used[free] = true
    return free
  end
  for _, panel in ipairs(panels) do
    local taken = {}
    for i, curve in ipairs(panel.curves) do
      if not curve.like then
        local key = curve.label or i
        local look = known[key]
        if not look or taken[look] then
          look = next_free()
          known[key] = known[key] or look
        end
        taken[look], curve.look = true, look
      end
    end
    for _, curve in ipairs(panel.curves) do
      if curve.like then curve.look = known[curve.like] or next_free() end
    end
  end
end

--- Colours of a look, its mark, and how often the palette was used up before it: then marks and dashes are others.
function causeway._look(look)
  local n = #causeway._palette
  local round = (look - 1) // n
  return causeway._palette[(look - 1) % n + 1], causeway._marks[(look - 1 + 3 * round) % #causeway._marks + 1], round
end
