-- Methods of causal linear attention against each other, and what benchmark_update has in common with that: first
-- right, then fast.
local causeway = ...

local raise, noun = causeway._raise, causeway._noun

-- Largest error beside the Float64 oracle, relative to its largest entry, that still counts as right.
local tolerances = { Float64 = 1e-10, Float32 = 1e-3, Float16 = 2e-2, BFloat16 = 1e-1 }
local dtypes = { Float64 = "f64", Float32 = "f32", Float16 = "f16", BFloat16 = "bf16" }
local element_bytes = { Float64 = 8, Float32 = 4, Float16 = 2, BFloat16 = 2 }
-- Where nothing else is asked for, a cell is the mean of so many calls; of slow ones as many as take about a second,
-- but a few.
local usual_repeats, fewest_repeats, usual_seconds = 15, 3, 1
-- Lengths where nothing else is asked for; the longest is not among those of all methods beside each other, of which
-- the slowest take seconds a call there.
local usual_lengths, lengths_of_all = { 128, 512, 2048, 8192 }, { 128, 512, 2048 }
local longest_vanilla = 1024 -- longer oracles use the row-based definition: the same sum, in time linear in N

local layouts = { "bhnd", "bnhd" }

causeway._options.causal_oracle = { decay = true, normalize = true, scale = true, layout = layouts }

--- The definition in Float64: what every method is compared with. Options: decay, normalize, scale, layout.
function causeway.causal_oracle(B, C, V, options)
  if C == nil and causeway._is_plain(B) then
    local given = {}
    for key, value in pairs(B) do given[key] = value end
    local function taken(...)
      local found
      for _, name in ipairs({ ... }) do found, given[name] = found or given[name], nil end
      return found
    end
    B, C, V, options = taken("B", "q"), taken("C", "k"), taken("V", "v"), given
  end
  for _, one in ipairs({ { "B", B }, { "C", C }, { "V", V } }) do
    if type(one[2]) ~= "userdata" then
      raise(string.format("causal_oracle: %s: expected a Tensor, got %s", one[1], noun(one[2])))
    end
  end
  if type(options) == "table" and options.method ~= nil then
    raise("causal_oracle: method: given, expected none: the oracle is the definition, by which methods are judged")
  end
  causeway._check_options("causal_oracle", options)
  local behind_tokens = options and options.layout == "bnhd" and B:ndims() > 2 and 2 or 1
  local method = B:size(B:ndims() - behind_tokens) <= longest_vanilla and "vanilla" or "row-based"
  local given = { method = method }
  for key, value in pairs(options or {}) do given[key] = value end
  return (causeway.causal_linear_attention(causeway.f64(B), causeway.f64(C), causeway.f64(V), given))
end

--- max |A - reference| / max |reference|; NaN where A has a NaN.
function causeway.relative_error(A, reference)
  for _, argument in ipairs({ { "A", A }, { "reference", reference } }) do
    if not causeway._is_tensor(argument[2]) then
      raise(string.format("relative_error: %s: expected a Tensor, got %s", argument[1], noun(argument[2])))
    end
  end
  local wide = causeway.f64(A)
  if causeway.length(wide) == 0 then return 0.0 end
  if not causeway.all(causeway.isfinite(wide)) then return 0 / 0 end
  for k = 1, 4 do
    if A:ndims() ~= reference:ndims() or k <= A:ndims() and A:size(k) ~= reference:size(k) then
      causeway._raise("relative_error: the shapes differ, " .. tostring(A):match("^[^\n:]*") .. " and "
        .. tostring(reference):match("^[^\n:]*"))
    end
  end
  local largest = causeway.maximum(causeway.abs(reference))
  return causeway.maximum(causeway.abs(wide - reference)) / (largest > 0 and largest or 1)
end

--- Calls f(...) once: its first result, the seconds, the peak of memory beyond what was held before and the result
--- itself.
function causeway.measured_call(f, ...)
  if type(f) ~= "function" and not (debug.getmetatable(f) or {}).__call then
    raise("measured_call: expected a function and its arguments, got " .. noun(f))
  end
  collectgarbage()
  local before = causeway._memory()
  causeway._reset_peak()
  local start = causeway.clock()
  local result = f(...)
  local seconds = causeway.clock() - start
  local _, peak = causeway._memory()
  if not causeway._is_tensor(result) then
    raise("the function returned " .. noun(result) .. ", expected a Tensor as its first result")
  end
  local own = causeway.length(result) * element_bytes[causeway.eltype(result)]
  return result, seconds, math.max(0, peak - before - own)
end

local statuses = { ["out of memory"] = "OOM", timeout = "timeout" }

--- The status of a row whose computation raised this error: "OOM", "timeout", or nil for any other error.
function causeway._status_of_error(problem) return statuses[causeway.error_kind(problem)] end

--- Whether a row may have this status: "ok" or one of those.
function causeway._is_status(status)
  for _, known in pairs(statuses) do
    if status == known then return true end
  end
  return status == "ok"
end

causeway._options.benchmark_method = {
  lengths = true, batch = true, heads = true, rank = true, dim = true, decay = true, normalize = true,
  dtype = { "Float32", "Float64", "Float16", "BFloat16" }, repeats = true, timeout = true, methods = true, seed = true,
  reference = true, show = true, name = true, inputs = true, layout = layouts,
}

-- The option of this name of a call that measures.
local function whole(call, options, name, default, min)
  local value = options[name]
  if value == nil then return default end
  if not math.tointeger(value) or value < min then
    raise(string.format("%s: %s: %s, expected a whole number, at least %d", call, name, tostring(value), min))
  end
  return math.tointeger(value)
end

-- What times the method of this name.
local function registered(name)
  return { name = name, forward = function(B, C, V, options)
    local given = { method = name, layout = "bhnd" }
    for key, value in pairs(options) do given[key] = value end
    return (causeway.causal_linear_attention(B, C, V, given))
  end }
end

-- The method that has this short name, as the tables of leet call it; any other name as it is.
local function by_short_name(name)
  for _, method in ipairs(causeway.method_list()) do
    if method.short == name then return method.name end
  end
  return name
end

-- The keys of `methods`: positions, then names, in order.
local function keys_of(methods)
  local keys, names = {}, {}
  for key in pairs(methods) do
    if math.type(key) == "integer" then keys[#keys + 1] = key else names[#names + 1] = tostring(key) end
  end
  table.sort(keys)
  table.sort(names)
  return table.move(names, 1, #names, #keys + 1, keys)
end

-- The methods to time as {name =, forward = function(B, C, V, options)}: `own` is the name of a function given alone;
-- and whether one of them is a rule made by recurrence, which computes something else than the others.
local function candidates(method, others, own)
  local list, taken, unknown, has_rule = {}, {}, {}, false
  local function add(item, name)
    local forward = causeway._forward_of_rule(item)
    if forward then item, name, has_rule = forward, name or item.name, true end
    if type(item) == "string" then item = by_short_name(item) end
    local tensors = type(item) == "userdata" or type(item) == "table" and type(item[1]) == "userdata"
    if tensors then
      raise("benchmark_method: method: " .. noun(item) .. "; tensors of yours are inputs: benchmark_method{inputs = "
        .. "{q, k, v}}")
    end
    if type(item) ~= "function" and type(item) ~= "string" then
      local several = type(item) == "table" and #item > 0 and '; of several it is benchmark_method{methods = {"fleet", '
        .. '"vanilla"}}' or ""
      raise("benchmark_method: method: expected a name or a function(B, C, V, options), got " .. noun(item) .. several)
    end
    if type(item) == "string" and name then
      raise(string.format('benchmark_method: name: "%s" for the method "%s", which has a name; expected one for a '
        .. "function", name, item))
    end
    local entry = type(item) == "string" and registered(item)
      or { name = name or #list == 0 and "yours" or "yours " .. #list + 1, forward = item }
    if taken[entry.name] then
      raise(string.format('benchmark_method: name: two methods are called "%s" in one table', entry.name))
    end
    if type(item) == "string" then unknown[item] = true end
    taken[entry.name], list[#list + 1] = true, entry
  end
  if own ~= nil and (type(own) ~= "string" or own == "") then
    raise("benchmark_method: name: " .. (own == "" and "an empty text" or noun(own))
      .. ", expected what the function is called in the table")
  end
  if own and method == nil then raise("benchmark_method: name: given, but no function that it is the name of") end
  if method ~= nil then add(method, own) end
  local more = others
  if more == nil and method == nil then
    more = {}
    for i, entry in ipairs(causeway.method_list()) do more[i] = entry.name end
  end
  if more ~= nil and type(more) ~= "table" then
    raise("benchmark_method: methods: expected a list of names, got " .. noun(more))
  end
  for _, key in ipairs(more and keys_of(more) or {}) do
    if more[key] ~= method then add(more[key], type(key) == "string" and key or nil) end
  end
  -- A misspelt name is an error now, not a row of errors later.
  local known, is_known = { "auto" }, { auto = true }
  for _, entry in ipairs(causeway.method_list()) do known[#known + 1], is_known[entry.name] = entry.name, true end
  for _, update in ipairs(causeway._call_option("linear_attention", "update").choices) do
    if unknown[update] and not is_known[update] then
      raise(string.format('benchmark_method: method: "%s" is an update of linear_attention: benchmark_update("%s") '
        .. "times it", update, update))
    end
  end
  if unknown.softmax_attention or unknown.softmax then
    raise("benchmark_method: method: softmax attention is no method of causal linear attention; methods = {softmax = "
      .. "function(B, C, V) return softmax_attention(B, C, V) end}, reference = false times it beside them")
  end
  causeway._check_names("benchmark_method: method", unknown, known)
  return list, has_rule
end

-- What each row of a benchmark has is looked for on the whole too.
local row_fields, elsewhere = "error mean std minimum median memory repeats place message", {}
local of_rows = "each row has it, for i, row in ipairs(b) do ... end goes over them"
for name in (row_fields .. " method N status"):gmatch("%S+") do elsewhere[name] = of_rows end
for name in ("time times column where"):gmatch("%S+") do
  elsewhere[name] = "b[1].mean is the time of its first row, and for i, row in ipairs(b) do ... end goes over them"
end

local in_order = "table.sort(b, function(x, y) return x.mean < y.mean end) sorts its rows, and b[1] is then the fastest"
for name in ("sort best fastest min sort_values sortby"):gmatch("%S+") do elsewhere[name] = in_order end

local Benchmark = { __name = "Benchmark" }
causeway._only_fields(Benchmark, { what = "a benchmark", list = true,
  fields = "lengths title compared tolerance by_definition origin messages",
  elsewhere = elsewhere })

-- Milliseconds; `decimals` are those of all rows of this length.
local function cell_of(row, decimals)
  if row.status == "ok" then
    local pattern = "%." .. decimals .. "f"
    return string.format(pattern .. "±" .. pattern, row.mean * 1e3, row.std * 1e3)
  end
  if row.status == "wrong" then return "wrong: " .. causeway.number_text(row.error, 2) end
  return row.status
end

-- The sentences about methods that give something else than the reference: of each its first length.
local function disagreements(results)
  local told, sentences = {}, {}
  for _, row in ipairs(results) do
    if row.status == "wrong" and not told[row.method] then
      told[row.method] = true
      sentences[#sentences + 1] = string.format("%s disagrees with %s at N = %d: largest relative error %s, at most "
        .. "%g is right; first at %s.", row.method, results.compared, row.N, causeway.number_text(row.error, 2),
        results.tolerance, row.place)
    end
  end
  if #sentences > 0 then sentences[#sentences + 1] = results.advice end
  return sentences
end

local function number_of_error(x) return causeway.number_text(x, 2) end

--- The table of the leet document: a line a method, a column a length; on one length of the user's inputs also how far
--- each method is from the reference, and its memory.
function Benchmark:table()
  local columns, lines, by_method, fastest = table.move(self.keys, 1, #self.keys, 1, {}), {}, {}, {}
  local worst
  for _, row in ipairs(self) do
    if row.status == "ok" and not (fastest[row.N] and fastest[row.N].mean <= row.mean) then fastest[row.N] = row end
    if row.error and row.status == "ok" and not (worst and worst >= row.error) then worst = row.error end
  end
  local decimals = {}
  for _, N in ipairs(self.lengths) do
    columns[#columns + 1] = { key = N, title = "N = " .. N, align = "right" }
    local times = {}
    for _, row in ipairs(self) do
      if row.status == "ok" and row.N == N then times[#times + 1] = row.mean * 1e3 end
    end
    decimals[N] = causeway._decimals(times, 3, 4)
  end
  if self.own and #self.lengths == 1 then
    if self.compared then
      columns[#columns + 1] = { key = "error", align = "right", format = number_of_error }
    end
    columns[#columns + 1] = { key = "memory", unit = "bytes" }
  end
  local any
  for _, row in ipairs(self) do
    local line = by_method[row.method]
    if not line then
      line = { error = row.error, memory = row.memory }
      for _, key in ipairs(self.keys) do line[key] = row[key] end
      by_method[row.method], lines[#lines + 1] = line, line
    end
    local first = fastest[row.N] == row
    any = any or first
    line[row.N] = cell_of(row, decimals[row.N]) .. (first and "*" or " ")
    if row.message then self.messages[row.method] = row.message end
  end
  local notes = {}
  if any then notes[1] = "* fastest" end
  if not self.compared then notes[#notes + 1] = "not compared" end
  if worst then
    notes[#notes + 1] = string.format("largest error beside %s: %s", self.by_definition and "Float64" or self.compared,
      causeway.number_text(worst, 2))
  end
  for name, message in pairs(self.messages) do notes[#notes + 1] = name .. ": " .. message end
  local note = disagreements(self)
  if #notes > 0 then table.insert(note, 1, table.concat(notes, "; ")) end
  return causeway.text_table(lines, { columns = columns, title = self.title,
    note = #note > 0 and table.concat(note, "\n") or nil, leading = #self.keys })
end

causeway._as_table(Benchmark)

-- A .csv file is for programs: it has the rows with all their numbers, not the table's cells.
local save_table = Benchmark.save
function Benchmark:save(path)
  if type(path) ~= "string" or not path:find("%.csv$") then return save_table(self, path) end
  causeway.save(path, table.move(self, 1, #self, 1, {}))
  causeway._saved(self, path)
  return self
end

--- Time over length, one curve a method.
function Benchmark:plot(options)
  local given = {}
  if type(options) == "string" then
    raise(string.format('plot: "%s", expected a table of options or nothing: b:plot() draws the mean over N', options))
  end
  causeway._check_plot_options(options)
  for key, value in pairs(options or {}) do given[key] = value end
  if not causeway._add_curves(given, self, "N", "mean", "method", "std") then
    local first = self[1]
    raise("plot: no method has a time to draw" .. (first and string.format(" (%s at N = %d: %s%s)", first.method,
      first.N, first.status, self[2] and ", and so on" or "") or "") .. ", the benchmark's table has what each came to")
  end
  for key, value in pairs({ xscale = "log", yscale = "log", xlabel = "length N", ylabel = "seconds" }) do
    given[key] = given[key] or value
  end
  return causeway.plot(given)
end

-- The first entry of O that is further from the reference than the tolerance, as text.
local function first_difference(O, reference, tolerance)
  local largest = causeway.maximum(causeway.abs(reference))
  local limit, n = tolerance * (largest > 0 and largest or 1), causeway.length(reference)
  local got, expected = causeway.f64(O):reshape(n), reference:reshape(n)
  local at = 1
  while at < n and math.abs(got(at) - expected(at)) <= limit do at = at + 1 end
  local index, rest = {}, at - 1 -- flat positions run through the last dimension first
  for k = reference:ndims(), 1, -1 do
    index[k], rest = rest % reference:size(k) + 1, rest // reference:size(k)
  end
  return string.format("O(%s): %s, expected %s", table.concat(index, ", "), causeway.number_text(got(at)),
    causeway.number_text(expected(at)))
end

-- One candidate at one length: checks it, where there is a reference, then times it.
local function measure(candidate, arguments, reference, tolerance, repeats)
  local O, _, memory = causeway.measured_call(candidate.forward, table.unpack(arguments))
  local row = { error = reference and causeway.relative_error(O, reference), memory = memory, status = "ok" }
  if reference and not (row.error <= tolerance) then
    row.status, row.place = "wrong", first_difference(O, reference, tolerance)
    return row
  end
  -- Memory is that of a call after the first, in which "auto" tries its candidates.
  local times, peak, spent = {}, 0, 0
  for i = 1, repeats or usual_repeats do
    if not repeats and i > fewest_repeats and spent > usual_seconds then break end
    O = nil -- luacheck: ignore 311 (what the last call returned is garbage while the next one runs)
    -- luacheck: ignore 311
    O, times[i], memory = causeway.measured_call(candidate.forward, table.unpack(arguments))
    peak, spent = math.max(peak, memory), spent + times[i]
  end
  row.memory, row.repeats = peak, #times
  local s = causeway._summary(times)
  row.mean, row.std, row.minimum, row.median = s.mean, s.std, s.minimum, s.median
  return row
end

local function checked_dtype(call, given)
  for long, short in pairs(dtypes) do
    if given == long or given == short then return long end
  end
  raise(string.format('%s: dtype: "%s", expected "Float32", "Float64", "Float16" or "BFloat16"', call, tostring(given)))
end

local function checked_lengths(call, lengths)
  if type(lengths) ~= "table" or #lengths == 0 then
    raise(call .. ": lengths: expected a list of lengths such as {128, 512}")
  end
  for i, N in ipairs(lengths) do
    if not math.tointeger(N) or N < 1 then
      raise(string.format("%s: lengths: item %d is %s, expected a whole number, at least 1", call, i, tostring(N)))
    end
  end
  return lengths
end

-- What the tensors of a user say by themselves, and no option beside them.
local said_by_inputs = { "batch", "heads", "rank", "dim", "dtype", "seed" }

-- [batch, N, heads, width] as [batch, heads, N, width]; without a batch likewise.
local function heads_first(X)
  local dims = causeway.ndims(X)
  if dims < 3 then return X end
  return dims == 3 and causeway.permutedims(X, 2, 1, 3) or causeway.permutedims(X, 1, 3, 2, 4)
end

-- The tensors {B, C, V} given as inputs = {q, k, v}, a list or by name, with what they say.
local function checked_inputs(options)
  local inputs = options.inputs
  if type(inputs) ~= "table" then
    raise("benchmark_method: inputs: expected a list of three tensors, {q, k, v}, got " .. noun(inputs))
  end
  local given = {}
  for i, names in ipairs({ { "q", "B" }, { "k", "C" }, { "v", "V" } }) do
    local X = inputs[i] or inputs[names[1]] or inputs[names[2]]
    local is_tensor = causeway._is_tensor(X)
    if not is_tensor or causeway.ndims(X) < 2 or X:device() ~= "cpu" then
      raise(string.format(
        "benchmark_method: inputs: %s is %s, expected a tensor on the CPU, [batch, heads, N, width]",
        names[1],
        is_tensor and (X:device() == "cpu" and "a tensor of one dimension" or "a tensor on a GPU") or noun(X)))
    end
    given[names[2]] = options.layout == "bnhd" and heads_first(X) or X
    given.dtype = given.dtype or causeway.eltype(X)
  end
  if options.layout == nil then causeway._note_layout("benchmark_method", "k", given.C, true) end
  local dims = causeway.ndims(given.B)
  given.tokens = causeway.size(given.B, dims - 1)
  for _, names in ipairs({ { "k", "C" }, { "v", "V" } }) do
    local X = given[names[2]]
    if causeway.ndims(X) ~= dims or causeway.size(X, dims - 1) ~= given.tokens then
      raise(string.format("benchmark_method: inputs: %s is %s and q %s, expected as many tokens", names[1], noun(X),
        noun(given.B)))
    end
  end
  given.batch = dims > 3 and causeway.size(given.B, 1) or 1
  given.heads = dims > 2 and causeway.size(given.B, dims - 2) or 1
  given.rank, given.dim = causeway.size(given.B, dims), causeway.size(given.V, causeway.ndims(given.V))
  return given
end

--- The options that calls which measure have in common, with their defaults, checked. own: what tensors of the user's
--- say, {tokens, batch, heads, rank, dim, dtype}, of which `lengths` are those of the first, all by default; usual: the
--- lengths by default where there are none.
function causeway._benchmark_options(call, options, own, usual)
  for _, name in ipairs(own and said_by_inputs or {}) do
    if options[name] ~= nil then
      raise(call .. ": " .. name .. ": given beside inputs, whose tensors have their own; leave it out")
    end
  end
  for _, N in ipairs(own and options.lengths and checked_lengths(call, options.lengths) or {}) do
    if N > own.tokens then
      raise(string.format("%s: lengths: %d, but inputs have %d tokens", call, N, own.tokens))
    end
  end
  local timeout = options.timeout or 60
  if type(timeout) ~= "number" or not (timeout > 0) then
    raise(call .. ": timeout: " .. tostring(timeout) .. ", expected a number of seconds above 0")
  end
  local rank = own and own.rank or whole(call, options, "rank", 64, 1)
  return {
    own = own, batch = own and own.batch or whole(call, options, "batch", 1, 1),
    heads = own and own.heads or whole(call, options, "heads", 8, 1), rank = rank,
    dim = own and own.dim or whole(call, options, "dim", rank, 1),
    repeats = whole(call, options, "repeats", nil, 1), seed = whole(call, options, "seed", 1, 0), timeout = timeout,
    dtype = own and own.dtype or checked_dtype(call, options.dtype or "Float32"),
    lengths = checked_lengths(call, options.lengths or own and { own.tokens } or usual),
  }
end

-- A decay as functions get it, as those of registered methods do: a list of one for each head.
local function decay_of_heads(decay, heads)
  if type(decay) == "userdata" then return causeway.totable(decay) end
  if type(decay) ~= "number" then return decay end
  local list = {}
  for h = 1, heads do list[h] = decay end
  return list
end

-- Those of benchmark_method; `passed` are those that go to every method.
local function checked_options(options, usual)
  causeway._check_options("benchmark_method", options)
  options = options or {}
  if options.layout ~= nil and options.inputs == nil then
    raise('benchmark_method: layout: given without inputs, expected beside tensors of yours: inputs = {q, k, v}')
  end
  causeway._check_word("benchmark_method: layout", options.layout, layouts)
  local own = options.inputs ~= nil and checked_inputs(options) or nil
  local given = causeway._benchmark_options("benchmark_method", options, own, usual)
  local reference = options.reference
  if reference and type(reference) ~= "function" then
    raise("benchmark_method: reference: expected a function(B, C, V, options) or false, got " .. noun(reference))
  end
  given.reference = reference
  given.passed = { decay = decay_of_heads(options.decay or nil, given.heads), normalize = options.normalize }
  return given
end

-- "of 15", or "of 3 to 15" where slow cells have fewer calls.
local function repeats_text(results)
  local fewest, most
  for _, row in ipairs(results) do
    if row.repeats then
      fewest, most = math.min(fewest or row.repeats, row.repeats), math.max(most or row.repeats, row.repeats)
    end
  end
  if not most then return "" end
  return fewest == most and " of " .. most or string.format(" of %d to %d", fewest, most)
end

-- A table without rows yet, and its fields, which pairs(results) passes by.
local function new_results(given, about)
  local origin = causeway._machine()
  origin.seed = not given.own and given.seed or nil
  local fields = setmetatable({
    lengths = given.lengths, own = given.own ~= nil, messages = {}, origin = origin,
    tolerance = tolerances[given.dtype], keys = about.keys, compared = about.compared,
    by_definition = about.by_definition, advice = about.advice,
  }, { __index = Benchmark })
  return setmetatable({}, { __index = fields, __tostring = Benchmark.__tostring, __rich = Benchmark.__rich,
    __name = "Benchmark" }), fields
end

-- What every method must give for the inputs, in Float64; nil: nothing is compared.
local function reference_of(given, inputs)
  if given.reference == false then return nil end
  if not given.reference then
    return causeway.causal_oracle(inputs.B, inputs.C, inputs.V,
      { decay = given.passed.decay, normalize = given.passed.normalize, layout = "bhnd" })
  end
  local O = given.reference(causeway.f64(inputs.B), causeway.f64(inputs.C), causeway.f64(inputs.V), given.passed)
  if not causeway._is_tensor(O) then
    raise("benchmark_method: reference: returned " .. noun(O) .. ", expected a Tensor like V")
  end
  local wide = causeway.f64(O)
  if not causeway.all(causeway.isfinite(wide)) then
    raise("benchmark_method: reference: returned NaN or Inf, expected finite entries")
  end
  return wide
end

--- The first N tokens of a tensor, which its dimension `axis` counts.
function causeway._first_tokens(X, N, axis)
  if causeway.size(X, axis) == N then return X end
  local at = {}
  for k = 1, causeway.ndims(X) do at[k] = k == axis and { 1, N } or ":" end
  return X(table.unpack(at))
end

--- A function that makes seeded normal tensors [batch, heads, N, ...] of the type that is measured.
function causeway._benchmark_inputs(given, N)
  causeway.seed(given.seed)
  local convert = causeway[dtypes[given.dtype]]
  return function(make, ...) return convert(make(causeway.randn(given.batch, given.heads, N, ...))) end
end

-- Candidate -> {arguments, reference}: the inputs of a length, and what every method must give for them.
local function prepare(given, N, list)
  local inputs = {}
  if given.own then
    for _, name in ipairs({ "B", "C", "V" }) do
      inputs[name] = causeway._first_tokens(given.own[name], N, causeway.ndims(given.own[name]) - 1)
    end
  else
    local input = causeway._benchmark_inputs(given, N)
    -- Row sums of both signs may be near zero: normalised runs get positive entries.
    local function of_product(X) return given.passed.normalize and causeway.abs(X) + 0.1 or X end
    inputs.B, inputs.C = input(of_product, given.rank), input(of_product, given.rank)
    inputs.V = input(function(X) return X end, given.dim)
  end
  local one, of = { arguments = { inputs.B, inputs.C, inputs.V, given.passed },
    reference = reference_of(given, inputs) }, {}
  for _, candidate in ipairs(list) do of[candidate] = one end
  return of
end

-- The row of a call that failed; a stop by the user ends the table.
local function row_of_error(message)
  if causeway.error_kind(message) == "interrupted" then error(message, 0) end
  local status = causeway._status_of_error(message)
  if status then return { status = status } end
  local hint = type(message) == "string" and causeway._hint(message)
  local text, line = causeway._without_position(tostring(message))
  return { status = "error",
    message = text .. (hint and " (" .. hint .. ")" or "") .. (line and ", in the line: " .. line or "") }
end

-- Appends a row for every length and candidate.
local function fill(results, given, list, prepare_of, progress)
  local too_slow = {}
  for _, N in ipairs(given.lengths) do
    local ready, prepared = pcall(prepare_of, given, N, list)
    if not ready and causeway._status_of_error(prepared) ~= "OOM" then error(prepared, 0) end
    for _, candidate in ipairs(list) do
      progress:show(candidate.name .. ", N = " .. N)
      local row
      if too_slow[candidate.name] then
        row = { status = "timeout" } -- it was at a shorter length
      elseif not ready then
        row = { status = "OOM" }
      else
        local own = prepared[candidate]
        local good, result = pcall(causeway._with_timeout, given.timeout, measure, candidate, own.arguments,
          own.reference, tolerances[given.dtype], given.repeats)
        row = good and result or row_of_error(result)
        too_slow[candidate.name] = row.status == "timeout"
      end
      row.method, row.update, row.mode, row.N = candidate.name, candidate.update, candidate.mode, N
      results[#results + 1] = causeway._result(row, "a row", row_fields)
      progress:step()
    end
  end
end

--- Measures the candidates {name =, forward =} over given.lengths and shows the table, unless `show` is false.
--- prepare_of(given, N, list): candidate -> {arguments, reference}. about: keys, the fields of rows that name a
--- candidate; setting, the end of the title; compared, advice: what is said of the reference and of those that give
--- something else; by_definition.
function causeway._run_benchmark(given, list, prepare_of, about, show)
  local progress = causeway.progress(#given.lengths * #list)
  local results, fields = new_results(given, about)
  local good, problem = pcall(fill, results, given, list, prepare_of, progress)
  progress:finish()
  if not good then error(problem, 0) end
  fields.title = string.format("Milliseconds a call, mean ± std%s; %sbatch %d, %d head%s, r = %d, d = %d, %s, %s",
    repeats_text(results), given.own and "on the inputs given, " or "", given.batch, given.heads,
    given.heads == 1 and "" or "s", given.rank, given.dim, given.dtype, about.setting)
  if show ~= false then causeway._show(results) end
  return results
end

--- Times a method (a registered name or function(B, C, V, options)) over lengths; see lua/help/measure.lua.
function causeway.benchmark_method(method, options)
  if options == nil and causeway._is_plain(method) and method[1] == nil then method, options = nil, method end
  if type(method) == "userdata" then candidates(method) end  -- which says where tensors go
  local all = method == nil and not (type(options) == "table" and options.methods)
  local given = checked_options(options, all and lengths_of_all or usual_lengths)
  options = options or {}
  local list, has_rule = candidates(method, options.methods, options.name)
  if has_rule and given.reference == nil then given.reference = false end
  return causeway._run_benchmark(given, list, prepare, {
    keys = { "method" }, by_definition = given.reference == nil,
    compared = given.reference and "the reference given"
      or given.reference == nil and "the Float64 definition of causal linear attention" or nil,
    advice = "For a rule that is meant to compute something else: reference = function(B, C, V) ... end, what it is to "
      .. "give, or reference = false.",
    setting = (given.passed.decay and "with" or "no") .. " decay" .. (given.passed.normalize and ", normalised" or ""),
  }, options.show)
end
