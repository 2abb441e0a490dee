-- How long, how much memory, on which machine.
local causeway = ...

--- What `__rich` returns: representations made when they are asked for. makers: name -> function.
function causeway._lazy(makers)
  return setmetatable({}, {
    __index = function(self, name)
      local make = makers[name]
      if not make then return nil end
      local value = make()
      rawset(self, name, value)
      return value
    end,
  })
end

local Machine = { __name = "Machine" }
causeway._only_fields(Machine, { what = "a machine",
  fields = "processor cores threads simd memory system compiler eigen lua causeway",
  elsewhere = { cpu = "processor is its name", ram = "memory is its bytes", os = "system is it",
    gpu = "causeway --version says what GPU there is", version = "causeway is the version of the program" } })

function Machine.__tostring(m)
  return table.concat(causeway._lines(table.concat({
    string.format("%s, %d core%s (%d thread%s in use), %s", m.processor, m.cores, m.cores == 1 and "" or "s", m.threads,
      m.threads == 1 and "" or "s", causeway.bytes_text(m.memory)),
    m.system,
    string.format("causeway %s built by %s for %s; Eigen %s, Lua %s", m.causeway, m.compiler, m.simd, m.eigen, m.lua),
  }, "\n"), (causeway.terminal_size())), "\n")
end

function Machine.__rich(m) return { text = tostring(m) } end

--- The machine, the build and the versions: processor, cores, threads, simd, memory, system, compiler, eigen, lua,
--- causeway.
function causeway.machine() return setmetatable(causeway._machine(), Machine) end

local Timing = { __name = "Timing" }
local seconds = "seconds of a call are minimum, median and mean"
causeway._only_fields(Timing, { what = "a timing", fields = "minimum median mean std samples memory",
  elsewhere = { time = seconds, times = seconds, seconds = seconds, elapsed = seconds } })

function Timing.__tostring(t)
  return string.format("  %s (median %s, %d sample%s, %s extra)", causeway.seconds_text(t.minimum),
    causeway.seconds_text(t.median), t.samples, t.samples == 1 and "" or "s",
    causeway.bytes_text(t.memory))
end

function Timing.__rich(t) return { text = tostring(t) } end

local function check_count(name, value, min)
  if value == nil then return end
  if type(value) ~= "number" then
    causeway._raise("btime: " .. name .. ": expected a number, got " .. causeway._noun(value))
  end
  if not (value >= min) then
    causeway._raise(string.format("btime: %s: %s, expected at least %s", name, tostring(value), min))
  end
end

-- Short calls are repeated within a sample until it lasts this long: the clock then costs nothing in comparison.
local shortest_sample = 20e-6
-- Garbage is collected between samples, outside the timing, after longer calls or past so much memory.
local tidy_seconds, tidy_bytes = 1e-3, 64 << 20

--- Times f() after a warm-up. See lua/help/measure.lua for the options; returns {minimum, median, mean, std, samples,
--- memory}.
function causeway.btime(f, options, ...)
  local callable = type(f) == "function" or type(f) == "table" and (getmetatable(f) or {}).__call
  local arguments = callable and (type(options) == "userdata" or select("#", ...) > 0)
  if not callable or arguments then
    causeway._raise("btime: f: " .. (arguments and "arguments behind it" or causeway._noun(f))
      .. ", expected a function without arguments, as in btime(function() return f(x) end)")
  end
  causeway._check_options("btime", options)
  options = options or {}
  check_count("samples", options.samples, 1)
  check_count("seconds", options.seconds, 0)
  local clock, memory, reset_peak = causeway.clock, causeway._memory, causeway._reset_peak

  f() -- the warm-up

  -- The call after it: the most held beyond what was held before. One that is long enough is the first sample too.
  collectgarbage()
  collectgarbage()
  local before = memory()
  reset_peak()
  local start = clock()
  f()
  local once = clock() - start
  local _, peak = memory()
  local calls = math.max(1, math.floor(shortest_sample / math.max(once, 1e-9)))
  if calls > 1 then
    start = clock()
    f()
    calls = math.max(1, math.floor(shortest_sample / math.max(clock() - start, 1e-8)))
  end
  -- Without options: 1000 samples or one second, whichever comes first, but at least three.
  local max_samples = options.samples or (options.seconds and 100000 or 1000)
  local limit = options.seconds or (options.samples and math.huge or 1)
  local min_samples = math.min(max_samples, 3)
  local times, spent = {}, 0
  if calls == 1 then times[1], spent = once, once end
  while #times < max_samples and (spent < limit or #times < min_samples) do
    if once > tidy_seconds or memory() - before > tidy_bytes then collectgarbage() end
    start = clock()
    for _ = 1, calls do f() end
    local elapsed = clock() - start
    spent = spent + elapsed
    times[#times + 1] = elapsed / calls
  end
  collectgarbage()

  local s = causeway._summary(times)
  local result = setmetatable({ minimum = s.minimum, median = s.median, mean = s.mean, std = s.std, samples = s.count,
    memory = math.max(0, peak - before) }, Timing)
  if options.show ~= false then causeway._show(result) end
  return result
end

causeway._options.btime = { samples = true, seconds = true, show = true }
causeway._options.copy_rate = { seconds = true }
causeway._options.read_rate = { seconds = true }
causeway._options.product_rate = { dtype = { "Float32", "Float64" }, seconds = true }
