-- A function of named values that are moved by hand: sliders and menus where the front end has widgets, calls where it
-- has none.
local causeway = ...
local raise = causeway._raise

causeway._options.interact = { order = true }

-- ---- controls: what each name may be set to ----

local function text_of(value)
  if math.type(value) == "float" then return string.format("%.10g", value) end
  return tostring(value)
end

-- The digits behind the point that a step needs.
local function digits_of(step)
  for digits = 0, 9 do
    local scaled = step * 10.0 ^ digits
    if math.abs(scaled - math.floor(scaled + 0.5)) < 1e-6 then return digits end
  end
  return 10
end

-- The point of the slider's grid that is nearest.
local function on_grid(control, x)
  local steps = math.floor((x - control.min) / control.step + 0.5)
  local value = control.min + steps * control.step
  if value > control.max then value = value - control.step end
  if control.whole then return math.tointeger(value) end
  return tonumber(string.format("%." .. digits_of(control.step) .. "f", value)) + 0.0
end

local kinds = {}

kinds.slider = {
  check = function(control, value)
    if type(value) ~= "number" or not (value >= control.min and value <= control.max) then
      raise(string.format("interact: %s: %s, expected a number from %s to %s", control.name, causeway._literal(value),
        text_of(control.min), text_of(control.max)))
    end
    return on_grid(control, value)
  end,
  model = function(control)
    local name = control.whole and "IntSlider" or "FloatSlider"
    return name, "SliderStyle", {
      min = control.min, max = control.max, step = control.step, value = control.value, orientation = "horizontal",
      readout = true, readout_format = control.whole and "d" or "." .. digits_of(control.step) .. "f",
      continuous_update = true,
    }
  end,
}

kinds.menu = {
  check = function(control, value)
    for _, choice in ipairs(control.choices) do
      if choice == value then return value end
    end
    local words = {}
    for i, choice in ipairs(control.choices) do words[i] = causeway._literal(choice) end
    raise(string.format("interact: %s: %s, expected %s", control.name, causeway._literal(value),
      table.concat(words, ", ")))
  end,
  model = function(control)
    local labels, index = {}, 0
    for i, choice in ipairs(control.choices) do
      labels[i] = text_of(choice)
      if choice == control.value then index = i - 1 end
    end
    return "Dropdown", "DescriptionStyle", { _options_labels = labels, index = index }
  end,
  from_state = function(control, state) return state.index and control.choices[state.index + 1] end,
  to_state = function(control)
    for i, choice in ipairs(control.choices) do
      if choice == control.value then return { index = i - 1 } end
    end
  end,
}

local function check_type(expected)
  return function(control, value)
    if type(value) ~= expected then
      raise(string.format("interact: %s: %s, expected a %s", control.name, causeway._literal(value), expected))
    end
    return value
  end
end

kinds.checkbox = {
  check = check_type("boolean"),
  model = function(control) return "Checkbox", "CheckboxStyle", { value = control.value, indent = true } end,
}

kinds.text = {
  check = check_type("string"),
  model = function(control)
    return "Text", "TextStyle", { value = control.value, continuous_update = false, placeholder = "" }
  end,
}

local function is_number_list(list)
  if #list ~= 2 and #list ~= 3 then return false end
  for _, x in ipairs(list) do
    if type(x) ~= "number" then return false end
  end
  return true
end

local function slider(name, min, max, step, value)
  local whole = math.type(min) == "integer" and math.type(max) == "integer" and math.type(step or 1) == "integer"
    and math.type(value or 1) == "integer"
  step = step or (whole and 1 or (max - min) / 100)
  if not (max > min) or not (max < math.huge and min > -math.huge) then
    raise(string.format("interact: %s: from %s to %s, expected a range with its smaller end first", name, text_of(min),
      text_of(max)))
  end
  if not (step > 0 and step <= max - min) then
    raise(string.format("interact: %s: a step of %s from %s to %s, expected a positive one within that range; for a "
      .. "choice among numbers give {choices = {...}}", name, text_of(step), text_of(min), text_of(max)))
  end
  local control = { kind = kinds.slider, name = name, min = min, max = max, step = step, whole = whole }
  local half = math.floor((max - min) / 2 / step + 1e-6) -- steps to the middle, or just below it
  control.value = value or on_grid(control, min + half * step)
  return control
end

local function menu(name, choices, value)
  if #choices == 0 then raise("interact: " .. name .. ": got no choices, expected one or more") end
  if value == nil then value = choices[1] end
  return { kind = kinds.menu, name = name, choices = choices, value = value }
end

-- The control that stands for what was given under the name.
local function control_of(name, given)
  local what = type(given)
  if what == "boolean" then return { kind = kinds.checkbox, name = name, value = given } end
  if what == "string" then return { kind = kinds.text, name = name, value = given } end
  if what == "number" then
    local one = math.type(given) == "integer" and 1 or 1.0
    if given == 0 then return slider(name, 0 * one, one, nil, given) end
    return slider(name, math.min(-given, 3 * given), math.max(-given, 3 * given), nil, given)
  end
  if what ~= "table" then
    raise(string.format("interact: %s: expected {min, max, step}, a list of choices, a number, a string or true or "
      .. "false, got a %s", name, what))
  end
  local control
  if given.choices then control = menu(name, given.choices, given.value)
  elseif is_number_list(given) then control = slider(name, given[1], given[2], given[3], given.value)
  else control = menu(name, given, given.value) end
  control.value = control.kind.check(control, control.value)
  return control
end

-- In the order that is asked for, then by name.
local function controls_of(given, order)
  local names, seen, controls = {}, {}, {}
  for _, name in ipairs(order or {}) do
    if given[name] == nil then
      raise(string.format("interact: order: %s is not among the names", causeway._literal(name)))
    end
    if not seen[name] then names[#names + 1] = name end
    seen[name] = true
  end
  local rest = {}
  for name in pairs(given) do
    if type(name) ~= "string" then
      raise("interact: expected names, as in {gamma = {0.5, 1, 0.01}}, got " .. causeway._literal(name))
    end
    if not seen[name] then rest[#rest + 1] = name end
  end
  table.sort(rest)
  table.move(rest, 1, #rest, #names + 1, names)
  for i, name in ipairs(names) do controls[i] = control_of(name, given[name]) end
  return controls
end

-- ---- widgets: the models of Jupyter's widgets, each with a channel of its own ----

local widget_version = "2.0.0" -- of the modules of ipywidgets 8

local models = {} -- channel -> {state =, changed = function of a part of the state}
local made = 0

local function new_id(what)
  made = made + 1
  return string.format("causeway-%s-%x-%s-%d", what, os.time(), tostring(models):match("%x+$"), made)
end

local function open_model(module, name, view, state, changed)
  local front = causeway._front_end
  state._model_module, state._model_module_version, state._model_name = module, widget_version, name .. "Model"
  state._view_module, state._view_module_version, state._view_name = module, widget_version, view
  local id = new_id("widget")
  models[id] = { state = state, changed = changed }
  front.open(id, "jupyter.widget", causeway.json_encode({ state = state, buffer_paths = {} }),
    causeway.json_encode({ version = "2.1.0" }))
  return id
end

local function reference(id) return "IPY_MODEL_" .. id end

local function open_control(control, layout, changed)
  local name, style, state = control.kind.model(control)
  state.description, state.disabled, state._dom_classes, state.layout = control.name, false, {}, layout
  state.style = reference(open_model("@jupyter-widgets/controls", style, "StyleView", {}))
  control.comm = open_model("@jupyter-widgets/controls", name, name .. "View", state, changed)
  return reference(control.comm)
end

-- A value that came from the front end; one that the control does not take is none.
local function value_from(control, state)
  local value
  if control.kind.from_state then value = control.kind.from_state(control, state) else value = state.value end
  if value == nil then return nil end
  local known, checked = pcall(control.kind.check, control, value)
  if known then return checked end
end

local function send_state(comm, state)
  for key, value in pairs(state) do models[comm].state[key] = value end
  causeway._front_end.send(comm, causeway.json_encode({ method = "update", state = state, buffer_paths = {} }))
end

--- A message through a channel, JSON as it came. The front end tells what was moved, or asks for the state of one model
--- or of all.
function causeway._receive(comm, text)
  local message, model = causeway.json_decode(text), models[comm]
  if message.method == "request_states" then
    local states = {}
    for id, one in pairs(models) do
      states[id] = {
        model_name = one.state._model_name, model_module = one.state._model_module,
        model_module_version = one.state._model_module_version, state = one.state,
      }
    end
    causeway._front_end.send(comm,
      causeway.json_encode({ method = "update_states", states = states, buffer_paths = {} }))
  elseif model and message.method == "request_state" then
    send_state(comm, model.state)
  elseif model and message.method == "update" and model.changed then
    for key, value in pairs(message.state) do model.state[key] = value end
    model.changed(message.state)
  end
end

-- ---- the panel: the function with its controls ----

local Panel = { __name = "interact" }
local insides = setmetatable({}, { __mode = "k" }) -- panel -> {f =, controls =, by_name =, display =}

local function values_text(inside)
  local parts = {}
  for i, control in ipairs(inside.controls) do parts[i] = control.name .. " = " .. text_of(control.value) end
  return table.concat(parts, "   ")
end

local function call(inside)
  local values = {}
  for _, control in ipairs(inside.controls) do values[control.name] = control.value end
  return inside.f(values)
end

local function show_in_place(inside)
  causeway._front_end.begin_keeping(inside.display, true)
  causeway._front_end.end_keeping(call(inside))
end

local function show_plainly(inside)
  causeway._present({ text = values_text(inside) })
  causeway._show_new(call(inside))
end

local function open_panel(inside)
  local front, children = causeway._front_end, {}
  inside.display = new_id("result")
  local layout = reference(open_model("@jupyter-widgets/base", "Layout", "LayoutView", {}))
  for i, control in ipairs(inside.controls) do
    children[i] = open_control(control, layout, function(state)
      local value = value_from(control, state)
      if value == nil or value == control.value then return end
      control.value = value
      show_in_place(inside)
    end)
  end
  local box = open_model("@jupyter-widgets/controls", "VBox", "VBoxView",
    { children = children, layout = layout, box_style = "", _dom_classes = {} })
  front.show(causeway.json_encode({
    ["application/vnd.jupyter.widget-view+json"] = { model_id = box, version_major = 2, version_minor = 0 },
    ["text/plain"] = values_text(inside) .. "\n(no sliders here: JupyterLab shows them where jupyterlab_widgets is "
      .. "installed; the result of interact, called with {name = value}, sets values too)",
  }))
  front.begin_keeping(inside.display, false)
  front.end_keeping(call(inside))
end

function Panel.__index(panel, name)
  local control = insides[panel].by_name[name]
  return control and control.value
end

function Panel.__newindex(panel, name, value) panel({ [name] = value }) end

function Panel.__tostring(panel) return "interact: " .. values_text(insides[panel]) end

function Panel.__call(panel, given)
  local inside = insides[panel]
  if given ~= nil and type(given) ~= "table" then
    raise("interact: expected {name = value}, got a " .. type(given))
  end
  local checked = {}
  for name, value in pairs(given or {}) do
    local control = inside.by_name[name]
    if not control then
      raise(string.format("interact: unknown name %s, expected %s", causeway._literal(name),
        values_text(inside):gsub(" = %S+", ""):gsub("   ", ", ")))
    end
    checked[control] = { control.kind.check(control, value) }
  end
  for control, value in pairs(checked) do
    control.value = value[1]
    if control.comm then
      local to_state = control.kind.to_state
      send_state(control.comm, to_state and to_state(control) or { value = control.value })
    end
  end
  if inside.display then show_in_place(inside) else show_plainly(inside) end
  causeway._mark_shown(panel)
  return panel
end

--- See ?interact.
function causeway.interact(f, given, options)
  if type(f) ~= "function" then raise("interact: expected a function, got a " .. type(f)) end
  if type(given) ~= "table" or next(given) == nil then
    raise("interact: expected what the function takes, as in {gamma = {0.5, 1, 0.01}}")
  end
  causeway._check_options("interact", options)
  local inside = { f = f, controls = controls_of(given, options and options.order), by_name = {} }
  for _, control in ipairs(inside.controls) do inside.by_name[control.name] = control end
  local panel = setmetatable({}, Panel)
  insides[panel] = inside
  if causeway._front_end then open_panel(inside) else show_plainly(inside) end
  causeway._mark_shown(panel)
  return panel
end
