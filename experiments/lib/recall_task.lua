-- Multi-query associative recall with assignment (Arora et al. 2023), and the layer that learns it: what
-- experiments/gates/recall.lua says of task and model. task(options) returns the functions below, for options pairs,
-- rewrites, keys, values, heads, d, model.
return function(options)
  local task = {}

  -- Exchanges entry i with a random one from i to n, and returns it.
  local function draw(list, i, n)
    local j = math.random(i, n)
    list[i], list[j] = list[j], list[i]
    return list[i]
  end

  -- Tokens of `count` sequences as one-hot rows: key [count·N, keys], value [count·N, values + 1] (the last: "?"), the
  -- answers [count·pairs, values]; for each answer how often its key was written and the most frequent of its values.
  function task.sequences(count)
    local key, value, answer, written, most, names = {}, {}, {}, {}, {}, range(1, options.keys):totable()
    for _ = 1, count do
      for i = 1, options.pairs do draw(names, i, options.keys) end  -- the keys of this sequence come first
      local history = {}  -- of each key: the last value, how many there were, how often each
      for i = 1, options.pairs + options.rewrites do
        local name, v = names[i <= options.pairs and i or math.random(options.pairs)], math.random(options.values)
        local of = history[name] or { count = 0, times = {}, top = 0 }
        history[name], of.last, of.count, of.times[v] = of, v, of.count + 1, (of.times[v] or 0) + 1
        of.top = math.max(of.top, of.times[v])
        key[#key + 1], value[#value + 1] = name, v
      end
      for i = 1, options.pairs do
        local name = draw(names, i, options.pairs)
        local of, n = history[name], #answer + 1
        key[#key + 1], value[#value + 1] = name, options.values + 1
        answer[n], written[n], most[n] = of.last, of.count, of.top
      end
    end
    local function one_hot(list, width) return eq(tensor(list):reshape(#list, 1), range(1, width):reshape(1, width)) end
    return { count = count, key = one_hot(key, options.keys), value = one_hot(value, options.values + 1),
      answer = one_hot(answer, options.values), written = tensor(written), most = tensor(most) }
  end

  function task.parameters()
    local D, heads, inner, s = options.model, options.heads, options.heads * options.d, options.model ^ -0.5
    return { key = randn(options.keys, D), value = randn(options.values + 1, D), q = randn(D, inner) * s,
      k = randn(D, inner) * s, v = randn(D, inner) * s, gate = randn(D, heads) * (0.1 * s),
      beta = randn(D, heads) * (0.1 * s), out = randn(inner, D) * inner ^ -0.5, classes = randn(D, options.values) * s }
  end

  -- The loss of the model with parameters p, and its logits. attend(q, k, v, x) is the attention of the layer;
  -- x.log_decay() and x.beta() are its gates [b, h, N], made when they are asked for.
  function task.evaluate(p, data, attend)
    local b, h, D, asked = data.count, options.heads, options.model, options.pairs
    local N = options.pairs + options.rewrites + asked
    -- [b·N, h·w] to [b, h, N, w]
    local function split(X) return X:reshape(b, N, h, X:size(2) // h):permutedims(1, 3, 2, 4) end
    local function unit(X) return X / sqrt(sum(times(X, X), 4) + 1e-6) end
    local x = data.key * p.key + data.value * p.value
    local gates = {
      log_decay = function() return log(sigmoid(split(x * p.gate) + 4)):reshape(b, h, N) end,
      beta = function() return sigmoid(split(x * p.beta)):reshape(b, h, N) end }
    local o = attend(unit(split(x * p.q)), unit(split(x * p.k)), split(x * p.v), gates)
    local y = x + o:permutedims(1, 3, 2, 4):reshape(b * N, h * options.d) * p.out
    local logits = y:reshape(b, N, D)(":", { N - asked + 1, N }, ":"):reshape(b * asked, D) * p.classes
    return -mean(log(sum(times(softmax(logits), data.answer), 2) + 1e-30)), logits
  end

  function task.right_answers(logits, data) return eq(argmax(logits, 2), argmax(data.answer, 2)) end

  return task
end
