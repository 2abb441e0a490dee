// Sequences on several workers from Lua, and under mpirun.
#include <string>

#include "tests/lua/mpi.hpp"
#include "tests/lua/shell.hpp"

namespace causeway::testing {
namespace {

// What the scripts below begin with.
const std::string begin = R"(
  seed(7)
  local function near(name, a, b)
    local e = maximum(abs(a - b))
    if not (e <= 1e-10 * (1 + maximum(abs(b)))) then error(name .. ": differs by " .. e) end
  end
  -- Every rank makes the same calls in the same order.
  local function sorted(t)
    local keys, i = {}, 0
    for k in pairs(t) do keys[#keys + 1] = k end
    table.sort(keys)
    return function() i = i + 1 if keys[i] then return keys[i], t[keys[i]] end end
  end
  local function with(t, more)
    local out = {}
    for k, x in pairs(t) do out[k] = x end
    for k, x in pairs(more) do out[k] = x end
    return out
  end
)";

// Every call of the family, whole and in parts of the ranks' own, beside one worker.
const std::string every_call = begin + R"(
  local parts = {engine = "mpi", sharded = true}
  for _, N in ipairs{1, 65, 200} do
    for _, update in ipairs{"linear", "gated", "delta", "gated_delta"} do
      local q, k, v = randn(1, 4, N, 7, "f64"), randn(1, 2, N, 7, "f64") * 0.4, randn(1, 2, N, 5, "f64")
      local o = {update = update, state = randn(1, 2, 7, 5, "f64")}
      if update:find("gated") then o.log_decay = -rand(1, 2, N, "f64") end
      if update:find("delta") then o.beta = rand(1, 2, N, "f64") end
      local own = with(o, parts)
      if o.log_decay then own.log_decay = shard(o.log_decay, 3) end
      if o.beta then own.beta = shard(o.beta, 3) end
      local O, S = linear_attention(q, k, v, o)
      for _, exchange in ipairs{"ring", "all-scan", "all-gather", "heads"} do
        local O2, S2, report = linear_attention(q, k, v, with(o, {engine = "mpi", exchange = exchange}))
        assert(report.engine == "mpi" and report.shards == mpi_size() and report.algorithm == exchange)
        near("O", O2, O) near("state", S2, S)
        local O3, S3 = linear_attention(shard(q), shard(k), shard(v), with(own, {exchange = exchange}))
        near("parts of O", unshard(O3), O) near("state after parts", S3, S)
      end
      local dO, dstate = randn(1, 4, N, 5, "f64"), randn(1, 2, 7, 5, "f64")
      local g = linear_attention_grad(q, k, v, dO, with(o, {dstate = dstate}))
      for _, exchange in ipairs{"ring", "all-scan", "all-gather", "heads"} do
        local more = {dstate = dstate, exchange = exchange}
        local g2 = linear_attention_grad(q, k, v, dO, with(with(o, more), {engine = "mpi"}))
        local g3 = linear_attention_grad(shard(q), shard(k), shard(v), shard(dO), with(own, more))
        for name, t in sorted(g) do
          near(name, g2[name], t)
          local gate = name == "dlog_decay" or name == "dbeta"
          near("parts of " .. name, name == "dstate" and g3[name] or unshard(g3[name], gate and 3 or nil), t)
        end
      end
    end
    for _, normalize in ipairs{false, true} do
      local B, C = rand(1, 2, N, 6, "f64"), rand(1, 2, N, 6, "f64")
      local V, dO = randn(1, 2, N, 3, "f64"), randn(1, 2, N, 3, "f64")
      local o = {decay = {0.9, 0.99}, normalize = normalize}
      local O, g = causal_linear_attention(B, C, V, o), causal_linear_attention_grad(B, C, V, dO, o)
      for _, exchange in ipairs{"ring", "all-scan", "all-gather", "heads"} do
        local whole, own = with(o, {engine = "mpi", exchange = exchange}), with(with(o, parts), {exchange = exchange})
        near("causal", causal_linear_attention(B, C, V, whole), O)
        near("parts", unshard(causal_linear_attention(shard(B), shard(C), shard(V), own)), O)
        local g2 = causal_linear_attention_grad(B, C, V, dO, whole)
        local g3 = causal_linear_attention_grad(shard(B), shard(C), shard(V), shard(dO), own)
        for name, t in sorted(g) do
          near(name, g2[name], t)
          near("parts of " .. name, name == "ddecay" and g3[name] or unshard(g3[name]), t)
        end
      end
    end
    for _, causal in ipairs{true, false} do
      local q, k = randn(1, 4, N, 6, "f64"), randn(1, 2, N, 6, "f64")
      local v, dO = randn(1, 2, N, 5, "f64"), randn(1, 4, N, 5, "f64")
      local o = {causal = causal}
      local O, lse = softmax_attention(q, k, v, with(o, {return_lse = true}))
      local g = softmax_attention_grad(q, k, v, dO, o)
      for _, exchange in ipairs{"ring", "heads"} do
        local whole, own = with(o, {engine = "mpi", exchange = exchange}), with(with(o, parts), {exchange = exchange})
        local O2, lse2 = softmax_attention(q, k, v, with(whole, {return_lse = true}))
        near("softmax", O2, O) near("lse", lse2, lse)
        near("parts", unshard(softmax_attention(shard(q), shard(k), shard(v), own)), O)
        local g2 = softmax_attention_grad(q, k, v, dO, whole)
        local g3 = softmax_attention_grad(shard(q), shard(k), shard(v), shard(dO), own)
        for name, t in sorted(g) do near(name, g2[name], t) near("parts of " .. name, unshard(g3[name]), t) end
      end
    end
  end
  print("as one worker, on", mpi_size())
)";

// Packed sequences, some of them empty, whole and in parts of the ranks' own, and heads that forget.
const std::string packed_calls = begin + R"(
  local N, me, p = 130, mpi_rank(), mpi_size()
  -- The rank's tokens: chunks of 64, or of the first rank 37, and of the others as many as they get.
  local function uneven(x, dim)
    local rest = p > 1 and (N - 37) // (p - 1) or 0
    local from, to = 37 + (me - 1) * rest + 1, 37 + me * rest
    if me == 0 then from, to = 1, 37 end
    if me == p - 1 then to = N end
    local at = {":", ":", {from, to}}
    if ndims(x) == 4 then at[4] = ":" end
    return x(table.unpack(at))
  end
  local parted = 0
  -- The results of call(tensors, options), by names, of whole tensors and of parts.
  local function compare(name, call, tensors, o, exchanges)
    local want = call(tensors, o)
    for _, exchange in ipairs(exchanges) do
      local got = call(tensors, with(o, {engine = "mpi", exchange = exchange}))
      for key, x in sorted(want) do near(name .. " " .. key, got[key], x) end
      for _, part in ipairs{shard, uneven} do
        local mine, own = {}, with(o, {engine = "mpi", exchange = exchange, sharded = true})
        for i, x in ipairs(tensors) do mine[i] = part(x, 3) end
        for _, key in ipairs{"log_decay", "beta"} do own[key] = o[key] and part(o[key], 3) end
        got = call(mine, own)
        for key, x in sorted(want) do
          local y = got[key]
          if key ~= "state" and key ~= "dstate" and key ~= "ddecay" then
            y = unshard(y, 3)
            parted = parted + 1
          end
          near(name .. " in parts, " .. key, y, x)
        end
      end
    end
  end
  local function linear(x, o)
    local O, state = linear_attention(x[1], x[2], x[3], o)
    return {O = O, state = state}
  end
  local function linear_grad(x, o) return linear_attention_grad(x[1], x[2], x[3], x[4], o) end
  local function causal(x, o)
    local O, state = causal_linear_attention(x[1], x[2], x[3], with(o, {return_state = true}))
    return {O = O, state = state}
  end
  local function causal_grad(x, o)
    return causal_linear_attention_grad(x[1], x[2], x[3], x[4], with(o, {method = "auto"}))
  end
  local function softmax(x, o)
    local O, lse = softmax_attention(x[1], x[2], x[3], with(o, {return_lse = true}))
    return {O = O, lse = lse}
  end
  local function softmax_grad(x, o) return softmax_attention_grad(x[1], x[2], x[3], x[4], o) end

  local q, k, v, dO = rand(1, 2, N, 6, "f64"), rand(1, 2, N, 6, "f64") * 0.5, randn(1, 2, N, 5, "f64"),
    randn(1, 2, N, 5, "f64")
  for _, offsets in ipairs{{0, N // 3, N // 3, N}, {0, 0, 37, 64, 65, N, N}} do
    local state = randn(#offsets - 1, 2, 6, 5, "f64")
    local packed, ring = {cu_seqlens = offsets}, {"ring", "heads"}
    local exchanges = {"ring", "all-scan", "all-gather", "heads"}
    for _, update in ipairs{"linear", "gated", "delta", "gated_delta"} do
      local o = with(packed, {update = update, state = state, chunk = 16})
      if update:find("gated") then o.log_decay = -rand(1, 2, N, "f64") end
      if update:find("delta") then o.beta = rand(1, 2, N, "f64") end
      compare("packed " .. update, linear, {q, k, v}, o, exchanges)
      compare("packed gradient of " .. update, linear_grad, {q, k, v, dO}, with(o, {dstate = state}), exchanges)
    end
    for _, o in ipairs{{decay = {0.9, 0.99}, method = "lightning-attention-2", state = state},
      {decay = {0.5, 0.6}, normalize = true, method = "row-based"}} do
      compare("packed causal", causal, {q, k, v}, with(o, packed), {"ring", "all-scan", "heads"})
      compare("packed causal gradient", causal_grad, {q, k, v, dO}, with(o, packed), exchanges)
    end
    for _, masked in ipairs{true, false} do
      local o = with(packed, {causal = masked})
      compare("packed softmax", softmax, {q, k, v}, o, ring)
      compare("packed softmax gradient", softmax_grad, {q, k, v, dO}, o, ring)
    end
  end
  local o = {update = "gated", log_decay = -1 - rand(1, 2, N, "f64"), deterministic = "run", chunk = 16}
  local O, S = linear_attention(q, k, v, o)
  local O2, S2, report = linear_attention(q, k, v, with(o, {engine = "mpi"}))
  near("forgetful O", O2, O) near("forgetful state", S2, S)
  print("packed, on", mpi_size(), parted)
)";

TEST_CASE("under mpirun every number of ranks computes a sequence as one does", "[lua][sharded][mpi]") {
    if (no_mpi()) return;
    for (const int ranks : {1, 2, 3, 5, 8}) {
        INFO(ranks);
        const Output output = run_mpi_script(ranks, every_call);
        INFO(output.err);
        CHECK(output.status == 0);
        CHECK(output.out == "as one worker, on\t" + std::to_string(ranks) + "\n");
    }
    for (const int ranks : {1, 2, 3, 8}) {
        INFO(ranks);
        const Output output = run_mpi_script(ranks, packed_calls);
        INFO(output.err);
        CHECK(output.out == "packed, on\t" + std::to_string(ranks) + "\t856\n");
    }
}

TEST_CASE("ranks that differ about a sequence are told what differs", "[lua][sharded][mpi]") {
    if (no_mpi()) return;
    check_told_alike(
        R"(
      local q, k, v = randn(1, 2, 20, 4), randn(1, 2, 20, 4), randn(1, 2, 20, 4)
      local g, short = -rand(1, 2, 20), randn(1, 2, 19, 4)
    )",
        R"(told(linear_attention, q, k, v, {engine = "mpi", chunk = me == 1 and 32 or 64})
        .. told(linear_attention, q, k, v, {engine = "mpi", update = me == 2 and "gated" or nil,
            log_decay = me == 2 and g or nil})
        .. told(linear_attention, q, k, v, {engine = "mpi", exchange = me == 1 and "all-scan" or "ring"})
        .. told(linear_attention, me == 2 and 2 * q or q, k, v, {engine = "mpi"})
        .. told(me == 1 and softmax_attention or linear_attention, q, k, v, {engine = "mpi"})
        .. told(softmax_attention, q, k, v, {engine = "mpi", causal = me == 0})
        .. told(causal_linear_attention, q, k, v, {engine = "mpi", decay = me == 1 and 0.5 or 0.9})
        .. told(causal_linear_attention, q, k, v, {engine = "mpi",
            method = me == 1 and "row-based" or "lightning-attention-2"})
        .. told(linear_attention, q, k, v, {engine = "mpi", sharded = me == 1})
        .. told(linear_attention, q, k, v, {sharded = true, cu_seqlens = me == 1 and {0, 7, 60} or {0, 9, 60}})
        .. told(linear_attention, q, k, v, {sharded = true, cu_seqlens = me == 1 and {0, 60} or nil})
        .. told(softmax_attention, q, k, v, {sharded = true, cu_seqlens = {0, 9, 20}})
        .. told(linear_attention, q, short, v, {sharded = true, cu_seqlens = {0, 9, 60}})
        .. told(softmax_attention, q, short, short, {sharded = true, cu_seqlens = {0, 9, 60}})
        .. told(linear_attention_grad, q, k, v, v, {engine = "mpi", sharded = me == 1})
        .. told(linear_attention_grad, q, k, v, me == 1 and 2 * v or v, {engine = "mpi"})
        .. told(softmax_attention_grad, q, k, v, me == 1 and 2 * v or v, {engine = "mpi"})
        .. told(linear_attention_grad, q, k, v, v, {engine = "mpi", dstate = me == 1 and ones(1, 2, 4, 4) or nil})
        .. told(linear_attention, q, k, v, {engine = "mpi", update = "gated", log_decay = me == 1 and 2 * g or g})
        .. told(causal_linear_attention, q, k, v, {engine = "mpi", sharded = me == 1})
        .. told(softmax_attention, q, k, v, {engine = "mpi", sharded = me == 1})
        .. told(linear_attention, q, k, v, {engine = "mpi", sizes = me == 1 and {10, 5, 5} or {5, 5, 10}})
        .. told(unshard, me == 1 and randn(3, 4) or randn(3, 5)))",
        "tree_decode(q, k, v)",
        {"chunk: 32 on rank 1, expected 64 like rank 0", "log_decay: columns 1 on rank 2, expected 0 like rank 0",
         "exchange: \"all-scan\" on rank 1, expected \"ring\" like rank 0", "q: values with the checksum ",
         "call: softmax_attention on rank 1, expected linear_attention like rank 0",
         "causal: false on rank 1, expected true like rank 0", "decay: 0.5 on rank 1, expected 0.9 like rank 0",
         "method: \"row-based\" on rank 1, expected \"lightning-attention-2\" like rank 0",
         "sharded: true on rank 1, expected false like rank 0",
         "cu_seqlens: an offset of 7 on rank 1, expected 9 like rank 0",
         "cu_seqlens: number of offsets 2 on rank 1, expected 0 like rank 0",
         "cu_seqlens: 20 as its last offset, expected 60, the tokens", "k: length 19, expected 20 like q",
         "sizes: a length of 10 on rank 1, expected 5 like rank 0", "dO: values with the checksum ",
         "dstate: given true on rank 1, expected false like rank 0", "log_decay: values with the checksum ",
         "x: another dimension of 4 on rank 1, expected 5 like rank 0"});
}

// `code` on three ranks; each leaves in `said` what it was told, a line each, all of one sentence. Those lines of all.
std::string told_to_all(const std::string& code) {
    const TemporaryFolder folder;
    const Output output = run_mpi_script(3, R"(
      local me, said = mpi_rank(), {}
      local function told(f, ...)
        local fine, why = pcall(f, ...)
        said[#said + 1] = fine and "fine" or why:gsub("^script.lua:%d+: ", "")
      end
    )" + code + R"(
      local file = io.open("part" .. me, "w")
      file:write(table.concat(said, "\n"), "\n")
      file:close()
    )",
                                         folder);
    INFO(output.err);
    CHECK(output.status == 0);
    return read_bytes(folder / "part0") + "--\n" + read_bytes(folder / "part1") + "--\n" + read_bytes(folder / "part2");
}

int count_of(const std::string& part, const std::string& text) {
    int count = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
    return count;
}

TEST_CASE("a rank that fails alone ends the calls of all ranks, which each say why", "[lua][sharded][mpi]") {
    if (no_mpi()) return;
    const std::string inputs = "local q, short = randn(1, 2, 130, 4), randn(1, 2, 129, 4)\n";
    const auto over = [](const std::string& said) {
        return "a call that all ranks share has failed on rank 1, no such call can follow in this job; it said: " +
               said + "\n";
    };
    // Before the ranks meet, of parts and of whole tensors; what follows would fit together.
    for (const std::string call :
         {"linear_attention, q, q, v, {sharded = true}", "softmax_attention, q, q, v, {engine = 'mpi'}",
          "causal_linear_attention, q, q, v, {engine = 'mpi'}",
          "tree_decode, q, q, v, {engine = 'mpi', causal = false}",
          "linear_attention_grad, q, q, v, v, {engine = 'mpi'}",
          "softmax_attention_grad, q, q, v, q, {engine = 'mpi'}"}) {
        CAPTURE(call);
        const std::string text = told_to_all(inputs + "local v = me == 1 and short or q\ntold(" + call +
                                             ")\nv = q\nfor _ = 1, 2 do told(" + call + ") end");
        INFO(text);
        const std::string why =
            call.starts_with("causal_") ? "V: length 129, expected 130 like B" : "v: length 129, expected 130 like k";
        const std::string others = over(why) + over(why) + over(why);
        CHECK(text == others + "--\n" + why + "\n" + over(why) + over(why) + "--\n" + others);
    }
    // While the arguments are read.
    for (const std::string call :
         {"linear_attention, q, q, me == 1 and 'v' or q, {sharded = true}",
          "softmax_attention, q, q, q, {engine = 'mpi', scale = me == 1 and 'v' or 1}",
          "unshard, q, me == 1 and 'v' or 1", "link_speed, 'mpi', me == 1 and 'v' or 3, 1024",
          "save, 'x.safetensors', {x = q}, {sharded = true, metadata = me == 1 and 3 or nil}",
          "ring_decode, q, q, me == 1 and 'v' or q", "tree_decode, q, q, q, {causal = true, v = me == 1 or nil}"}) {
        CAPTURE(call);
        const std::string text = told_to_all(inputs + "for _ = 1, 2 do told(" + call + ") end told(unshard, q)");
        INFO(text);
        CHECK(text.find("fine") == std::string::npos);
        CHECK(count_of("has failed on rank 1", text) >= 7);  // rank 1 may say its own error twice
        CHECK(text.find("it said: an error") == std::string::npos);
    }
    // Between two meetings of a call.
    const std::string text = told_to_all(inputs + R"(
      local dO = me == 1 and randn(1, 2, 130, 5) or q
      for _ = 1, 2 do
        told(linear_attention_grad, q, q, q, dO, {engine = "mpi"})
        told(causal_linear_attention_grad, q, q, q, dO, {engine = "mpi"})
      end)");
    INFO(text);
    CHECK(count_of("dO: ", text) == 12);
    CHECK(text.find("fine") == std::string::npos);
    // What one rank computes alone, without meeting others, is no call of all.
    const std::string alone = told_to_all(inputs + R"(
      local m = model{arch = "llama", size = "tiny", weights = "random"}
      m:attention{with = "tree", options = {engine = "mpi"}}
      if me == 0 then
        m:predict("Alone.")
        linear_attention(q, q, q, {sharded = false, exchange = "auto"})
      end
      told(m.generate, m, {1, 2, 3}, {tokens = 3})
      told(linear_attention, q, q, q, {engine = "mpi"}))");
    CHECK(alone == "fine\nfine\n--\nfine\nfine\n--\nfine\nfine\n");
    // In a model whose keys they share, of which one rank computes a token more.
    const std::string model = told_to_all(R"(
      local m = model{arch = "llama", size = "tiny", weights = "random"}
      m:attention{with = "tree", options = {engine = "mpi"}}
      told(m.generate, m, {1, 2, 3, 4}, {tokens = me == 1 and 4 or 3})
      said = {}
      for _ = 1, 2 do told(m.generate, m, {1, 2, 3, 4}, {tokens = 3}) end)");
    INFO(model);
    CHECK(model.find("fine") == std::string::npos);
    // While others wait for it, and after the time that was asked for.
    const std::string late = told_to_all(inputs + R"(
      unshard(zeros(1, 1)) -- none begins later than the others, however loaded the machine is
      if me == 1 then os.execute("sleep 3") end
      told(linear_attention, q, q, q, {engine = "mpi", timeout = 0.5})
      told(linear_attention, q, q, q, {engine = "mpi"}))");
    INFO(late);
    CHECK(late.find("fine") == std::string::npos);
    CHECK(late.find("waited 0.5 s (timeout)") != std::string::npos);
}

TEST_CASE("ranks with other numbers of threads choose the same exchange", "[lua][sharded][mpi]") {
    if (no_mpi()) return;
    const Output output = run_mpi_script(2, R"(
      threads(1 + mpi_rank())
      seed(1)
      local q = randn(1, 2, 400, 8)
      local g, report = causal_linear_attention_grad(q, q, q, q, {engine = "mpi", decay = 0.9999})
      print(report.algorithm)
    )");
    INFO(output.err);
    CHECK(output.status == 0);
    CHECK(output.out == "ring\n");
}

TEST_CASE("a gradient by the ring comes to its end whatever threads ranks have", "[lua][sharded][mpi]") {
    if (no_mpi()) return;
    for (const int ranks : {2, 4}) {
        INFO(ranks);
        const Output output = run_mpi_script(ranks, R"(
          seed(1)
          local q, v, g = randn(1, 24, 90, 4), randn(1, 24, 90, 4), -0.01 * rand(1, 24, 90)
          local o = {update = "gated", log_decay = g}
          local one = linear_attention_grad(q, q, v, v, o)
          o.engine, o.exchange = "mpi", "ring"
          for _, of_ranks in ipairs{{4, 1, 7, 2}, {1, 7, 2, 4}, {2, 2, 2, 2}, {24, 1, 24, 1}} do
            threads(of_ranks[1 + mpi_rank()])
            local all, report = linear_attention_grad(q, q, v, v, o)
            assert(report.algorithm == "ring")
            for _, name in ipairs{"dq", "dk", "dv", "dlog_decay"} do
              assert(maximum(abs(all[name] - one[name])) < 1e-4, name)
            end
          end
          print("done")
        )");
        INFO(output.err);
        CHECK(output.status == 0);
        CHECK(output.out == "done\n");
    }
}

TEST_CASE("offsets and slots that are no lists of numbers are named", "[lua][sharded]") {
    Shell lua;
    lua("x = randn(1, 2, 30, 4)");
    CHECK(lua("return linear_attention(x, x, x, {cu_seqlens = {}})") ==
          "user:1: cu_seqlens: an empty table, expected a list of whole numbers");
    CHECK(lua("return softmax_attention(x, x, x, {cu_seqlens = 30})") ==
          "user:1: cu_seqlens: expected a list of whole numbers, got a number");
    CHECK(lua("return causal_linear_attention(x, x, x, {cu_seqlens = zeros(2, 2)})") ==
          "user:1: cu_seqlens: 2×2 Tensor{Float32}, expected a list of whole numbers");
    CHECK(lua("return linear_attention(x, x, x, {state_indices = 'x'})") ==
          "user:1: state_indices: expected a list of whole numbers, got a string");
}

TEST_CASE("ranks read their parts of a file and write one together", "[lua][sharded][safetensors][mpi]") {
    if (no_mpi()) return;
    for (const int ranks : {1, 2, 3}) {
        INFO(ranks);
        const TemporaryFolder folder;
        const Output output = run_mpi_script(ranks, R"(
          seed(3)
          local x = {q = randn(1, 2, 300, 6), g = randn(1, 2, 300)}
          if mpi_rank() == 0 then save("whole.safetensors", x) end
          unshard(zeros(1, 1)) -- the file is there
          local part, metadata = load("whole.safetensors", {sharded = true, dim = 3})
          assert(part.q == shard(x.q) and part.g == shard(x.g, 3) and next(metadata) == nil)
          local q = load("whole.safetensors", {sharded = true, names = {"q"}})
          assert(q.q == shard(x.q) and q.g == nil)
          part.q = linear_attention(part.q, part.q, part.q, {sharded = true})
          save("together.safetensors", part, {sharded = true, dim = 3, metadata = {by = "all"}})
          unshard(zeros(1, 1))
          local together, said = load("together.safetensors")
          assert(together.g == x.g and said.by == "all")
          assert(maximum(abs(together.q - linear_attention(x.q, x.q, x.q))) < 1e-4)
          local ok, fault = pcall(save, "none/a.safetensors", part, {sharded = true, dim = 3})
          assert(not ok and fault:find("cannot be written", 1, true))
          ok, fault = pcall(save, "b.safetensors", {q = part.q, [mpi_rank() == 1 and "h" or "g"] = part.g},
            {sharded = true, dim = 3})
          assert(ok == (mpi_size() == 1) and (ok or fault:find("a name with the checksum", 1, true)))
          print("done")
        )",
                                             folder);
        INFO(output.err);
        CHECK(output.status == 0);
        CHECK(output.out == "done\n");
    }
}

TEST_CASE("a sequence on several workers in the shell", "[lua][sharded]") {
    Shell lua;
    CHECK(lua("q = randn(1, 4, 300, 8) O, S, r = linear_attention(q, q, q, {shards = 3}) return r.shards, r.engine, "
              "r.algorithm, r.messages, r.elements, maximum(abs(O - linear_attention(q, q, q)))") ==
          "3 threads ring 8 512 0.0");
    CHECK(lua("_, r = softmax_attention(q, q, q, {shards = 2, exchange = 'ring'}) return r")
              .find("keys and values on their way") != std::string::npos);
    CHECK(lua("_, _, r = linear_attention(q, q, q, {shards = 3}) return r").find("states and maps of states") !=
          std::string::npos);
    CHECK(lua("return maximum(abs(unshard(linear_attention(shard(q), shard(q), shard(q), {sharded = true})) - O))") ==
          "0.0");
    CHECK(lua("return shard(q, 9)") == "user:1: dim: 9, expected from 1 to 4, the dimensions of a tensor of 1×4×300×8");
    CHECK(lua("local Q = permutedims(q, 1, 3, 2, 4) local P, _, r = linear_attention(Q, Q, Q, {layout = 'bnhd', "
              "shards = 3}) return r.shards, maximum(abs(permutedims(P, 1, 3, 2, 4) - O))") == "3 0.0");
}

}  // namespace
}  // namespace causeway::testing
