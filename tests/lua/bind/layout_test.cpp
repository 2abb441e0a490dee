// The option layout: with "bnhd" every call gives what it gives for tensors that were permuted by hand; and the note
// about keys that look like the other order.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

namespace {

// H puts [b, N, h, ...] in place of [b, h, N, ...]. same() asks for equal elements, not near ones: both ways compute
// the same. No two of the sizes that are swapped are equal, so that a tensor left as it was cannot pass.
constexpr const char* setup = R"(
    seed(1)
    function H(x) return x:ndims() == 4 and permutedims(x, 1, 3, 2, 4) or permutedims(x, 1, 3, 2) end
    function with(options, more)
        local all = {}
        for _, part in ipairs{options, more} do for key, value in pairs(part) do all[key] = value end end
        return all
    end
    function same(a, b) return a == b and "same" or "different" end
    q, k, v, G = randn(2, 4, 6, 3), randn(2, 4, 6, 3), randn(2, 4, 6, 5), randn(2, 4, 6, 5)
    q6 = randn(2, 8, 6, 3) G6 = randn(2, 8, 6, 5)
    q1, k1, v1 = randn(2, 8, 1, 3), randn(2, 4, 1, 3), randn(2, 4, 1, 5)
    S = randn(2, 4, 3, 5)
    gates = {update = "gated_delta", log_decay = -rand(2, 4, 6), beta = rand(2, 4, 6)}
    other = {update = "gated_delta", log_decay = H(gates.log_decay), beta = H(gates.beta), layout = "bnhd"}
)";

}  // namespace

TEST_CASE("layout bnhd: causal linear attention and its gradient", "[lua][layout]") {
    Shell lua;
    lua(setup);
    CHECK(lua("local o = {method = 'row-based', state = S, return_state = true, decay = {0.5, 0.6, 0.7, 0.8}} "
              "local O, U = causal_linear_attention(q, k, v, o) "
              "local P, W = causal_linear_attention(H(q), H(k), H(v), with(o, {layout = 'bnhd'})) "
              "return same(P, H(O)), same(W, U)") == "same same");
    CHECK(lua("local o = {decay = 0.9, state = S} local g = causal_linear_attention_grad(q, k, v, G, o) "
              "local h = causal_linear_attention_grad(H(q), H(k), H(v), H(G), with(o, {layout = 'bnhd'})) "
              "return same(h.dB, H(g.dB)), same(h.dC, H(g.dC)), same(h.dV, H(g.dV)), same(h.dq, H(g.dq)), "
              "same(h.dk, H(g.dk)), same(h.dv, H(g.dv)), same(h.dstate, g.dstate), h.ddecay == g.ddecay") ==
          "same same same same same same same true");
    // With every argument named, by either name.
    for (const char* names : {"B = H(q), C = H(k), V = H(v)", "q = H(q), k = H(k), v = H(v)"}) {
        CAPTURE(names);
        CHECK(lua(std::string("return same(causal_linear_attention{method = 'fleet', layout = 'bnhd', ") + names +
                  "}, H(causal_linear_attention(q, k, v, {method = 'fleet'})))") == "same");
    }
    CHECK(lua("register_method{name = 'first', forward = function(B, C, V) shape = {size(B)} return V end} "
              "local O = causal_linear_attention(H(q), H(k), H(v), {method = 'first', layout = 'bnhd'}) "
              "return same(O, H(v)), shape[2], shape[3]") == "same 4 6");
}

TEST_CASE("layout bnhd: gates and delta rules", "[lua][layout]") {
    Shell lua;
    lua(setup);
    CHECK(lua("local O, U = linear_attention(q6, k, v, with(gates, {state = S})) "
              "local P, W = linear_attention(H(q6), H(k), H(v), with(other, {state = S})) "
              "return same(P, H(O)), same(W, U)") == "same same");
    CHECK(lua("local g = -rand(2, 4, 6, 3) local O = linear_attention(q6, k, v, {update = 'gated', log_decay = g}) "
              "return same(linear_attention(H(q6), H(k), H(v), {update = 'gated', log_decay = H(g), layout = 'bnhd'}), "
              "H(O))") == "same");
    CHECK(lua("local g = linear_attention_grad(q6, k, v, G6, with(gates, {dstate = S})) "
              "local h = linear_attention_grad(H(q6), H(k), H(v), H(G6), with(other, {dstate = S})) "
              "return same(h.dq, H(g.dq)), same(h.dk, H(g.dk)), same(h.dv, H(g.dv)), same(h.dlog_decay, "
              "H(g.dlog_decay)), same(h.dbeta, H(g.dbeta)), same(h.dstate, g.dstate)") ==
          "same same same same same same");
    CHECK(lua("local g = -rand(2, 4, 1) local a, b = S:copy(), S:copy() "
              "local O = linear_attention_step(q1, k1, v1, a, {update = 'gated', log_decay = g, inplace = true}) "
              "local P, U = linear_attention_step(H(q1), H(k1), H(v1), b, {update = 'gated', log_decay = H(g), "
              "inplace = true, layout = 'bnhd'}) return same(P, H(O)), same(U, a), same(b, a), same(a, S)") ==
          "same same same different");
}

TEST_CASE("layout bnhd: softmax attention and the energy", "[lua][layout]") {
    Shell lua;
    lua(setup);
    CHECK(lua("O, L = softmax_attention(q6, k, v, {return_lse = true}) "
              "P, M = softmax_attention(H(q6), H(k), H(v), {return_lse = true, layout = 'bnhd'}) "
              "return same(P, H(O)), same(M, H(L))") == "same same");
    CHECK(lua("local g = softmax_attention_grad(q6, k, v, G6, {O = O, lse = L}) "
              "local h = softmax_attention_grad(H(q6), H(k), H(v), H(G6), {O = P, lse = M, layout = 'bnhd'}) "
              "return same(h.dq, H(g.dq)), same(h.dk, H(g.dk)), same(h.dv, H(g.dv))") == "same same same");
    CHECK(lua("local F, total = energy(q6, k, v, G6) local E, sum = energy(H(q6), H(k), H(v), H(G6), {layout = "
              "'bnhd'}) return same(E, H(F)), math.abs(sum - total) <= 1e-12 * math.abs(total)") == "same true");
    CHECK(lua("return same(energy_grad{q = H(q6), k = H(k), v = H(v), layout = 'bnhd'}, H(energy_grad(q6, k, v)))") ==
          "same");
    CHECK(lua("return same(energy_hessian(H(q1), H(k), H(v), nil, {layout = 'bnhd'}), energy_hessian(q1, k, v))") ==
          "same");
    // Without a batch the heads are the second dimension of [N, h, d]; without heads there is nothing to swap.
    CHECK(
        lua("local function part(x) return x(1, ':', ':', ':') end local function P(x) return permutedims(x, 2, 1, 3) "
            "end local O, L = softmax_attention(part(q6), part(k), part(v), {return_lse = true}) "
            "local R, M = softmax_attention(P(part(q6)), P(part(k)), P(part(v)), {return_lse = true, layout = "
            "'bnhd'}) return same(R, P(O)), same(M, L:t())") == "same same");
    CHECK(
        lua("local x = randn(6, 3) return same(softmax_attention(x, x, x, {layout = 'bnhd'}), softmax_attention(x, x, "
            "x))") == "same");
}

TEST_CASE("layout bnhd: decoding over shards", "[lua][layout]") {
    Shell lua;
    lua(setup);
    for (const char* call : {"tree_decode", "ring_decode"}) {
        CAPTURE(call);
        lua.set("call", call);
        CHECK(lua("local f, o = causeway[call], {shards = 3, return_lse = true} local O, r, L = f(q6, k, v, o) "
                  "local P, s, M = f(H(q6), H(k), H(v), with(o, {layout = 'bnhd'})) "
                  "return same(P, H(O)), same(M, H(L)), s.shards, tostring(s):match('^%a+')") ==
              "same same 3 " + std::string(call).substr(0, 4));
    }
}

TEST_CASE("layout: what is not one is refused, and arguments stay as they are", "[lua][layout]") {
    Shell lua;
    lua(setup);
    CHECK(lua("softmax_attention(q, k, v, {layout = 'bndh'})") ==
          "user:1: layout: \"bndh\", expected one of \"bhnd\", \"bnhd\" (did you mean \"bnhd\"?)");
    CHECK(lua("softmax_attention(q, k, v, {layout = true})") == "user:1: layout: expected a string, got a boolean");
    CHECK(lua("softmax_attention(1, k, v, {layout = 'bnhd'})") == "user:1: q: expected a Tensor, got a number");
    CHECK(lua("softmax_attention{k = k, v = v, layout = 'bnhd'}") == "user:1: q: expected a Tensor, got nothing");
    CHECK(lua("softmax_attention()") == "user:1: q: expected a Tensor, got nothing");
    CHECK(lua("softmax_attention(q, k, v, {layout = 'bnhd'}, 5)") ==
          "user:1: softmax_attention: argument 5: a number, expected none after the options");
    CHECK(lua("lowrank('svd', q, k, {layout = 'bnhd'})").find("lowrank: unknown option \"layout\"") !=
          std::string::npos);
    // Arguments are passed on more than once, and the stack has room for it.
    CHECK(lua("return (pcall(softmax_attention, table.unpack({q, k, v, {}}, 1, 50000)))") == "true");
    CHECK(lua("local o = {q = q, k = k, v = v, layout = 'bnhd'} local before = q:copy() softmax_attention(o) "
              "return same(o.q, before), o.layout") == "same bnhd");
}

TEST_CASE("layout bnhd: errors tell sizes in the order in which they came", "[lua][layout][errors]") {
    Shell lua;
    lua(setup);
    const auto wrong = [&](const std::string& call) { return lua(call); };
    CHECK(wrong("linear_attention(H(q), H(k), H(v), {update = 'delta', layout = 'bnhd', beta = rand(2, 4, 6)})") ==
          "user:1: beta: 2×4×6, expected 2×6×4");
    CHECK(wrong("linear_attention(H(q), H(k), H(v), {update = 'gated', layout = 'bnhd', log_decay = rand(2, 4, 6)})") ==
          "user:1: log_decay: 2×4×6, expected 2×6×4, or 2×6×4×3 for a gate per key channel");
    CHECK(wrong("general_linear_attention(H(q), H(k), H(v), {u = H(k), w = k, layout = 'bnhd'})") ==
          "user:1: w: 2×4×6×3, expected 2×6×4×3, or fewer heads that are shared");
    CHECK(wrong("linear_attention_grad(H(q), H(k), H(v), G, {layout = 'bnhd'})") ==
          "user:1: dO: 2×4×6×5, expected 2×6×4×5 like the output");
    CHECK(wrong("causal_linear_attention_grad(H(q), H(k), H(v), G, {layout = 'bnhd'})") ==
          "user:1: dO: 2×4×6×5, expected 2×6×4×5 like V");
    CHECK(wrong("softmax_attention_grad(H(q), H(k), H(v), G, {layout = 'bnhd'})") ==
          "user:1: dO: 2×4×6×5, expected 2×6×4×5 like the output");
    CHECK(wrong("softmax_attention(H(q), H(k), H(v)(1, ':', ':', ':'), {layout = 'bnhd'})") ==
          "user:1: v: 3 dimensions (6×4×5), expected 4 like q (2×6×4×3)");
    // States have one order, and a later call without the option has its own.
    CHECK(wrong("linear_attention(H(q), H(k), H(v), {layout = 'bnhd', state = randn(2, 3, 4, 5)})") ==
          "user:1: state: 2×3×4×5, expected 2×4×3×5");
    CHECK(wrong("linear_attention(q, k, v, {update = 'delta', beta = H(gates.beta)})") ==
          "user:1: beta: 2×6×4, expected 2×4×6");
}

TEST_CASE("keys that look like [batch, N, heads, d] are noted once", "[lua][layout]") {
    Shell lua;
    lua("notes = {} causeway._note = function(text) notes[#notes + 1] = text end "
        "function many(heads, tokens) return randn(1, heads, tokens, 2) end x = many(200, 8)");
    CHECK(lua("softmax_attention(x, x, x) softmax_attention{q = x, k = x, v = x} return #notes, notes[1]") ==
          "1 softmax_attention: k is 1×200×8×2:\n200 heads of 8 tokens? Expected is [batch, heads, N, d];\n[batch, N, "
          "heads, d] is layout = \"bnhd\" (\"bhnd\" hides this note)");
    // Another call is noted for itself; the name is that of the argument.
    CHECK(lua("notes = {} causal_linear_attention{q = x, k = x, v = x} return #notes, notes[1]:match('^.-:')") ==
          "1 causal_linear_attention:");
    // A call that fails for the same reason has its note first.
    CHECK(lua("notes = {} local ok = pcall(tree_decode, many(1, 8), x, x) return ok, #notes") == "false 1");
    CHECK(lua("notes = {} lowrank('taylor', x, x, {rank = 6}) return #notes, notes[1]:match('[^\\n]*$')") ==
          "1 [batch, N, heads, d] becomes it by permutedims(k, 1, 3, 2, 4)");
    CHECK(lua("notes = {} check_bound('B7', {q = x, k = x, v = x, method = 'fleet'}) return #notes, "
              "notes[1]:match('^.-:'), "
              "notes[1]:match('[^\\n]*$')") ==
          "1 check_bound: [batch, N, heads, d] becomes it by permutedims(C, 1, 3, 2, 4)");
}

TEST_CASE("a named layout and usual shapes are not noted", "[lua][layout]") {
    Shell lua;
    lua("notes = 0 causeway._note = function() notes = notes + 1 end x = randn(1, 200, 8, 2)");
    CHECK(lua("softmax_attention(x, x, x, {layout = 'bhnd'}) softmax_attention(x, x, x, {layout = 'bnhd'}) "
              "softmax_attention{q = x, k = x, v = x, layout = 'bhnd'} return notes") == "0");
    CHECK(lua("local function call(...) local y = randn(...) softmax_attention(y, y, y) end "
              "call(1, 64, 8, 2) call(1, 128, 100, 2) call(1, 200, 129, 2) call(1, 200, 1, 2) call(200, 8, 2) return "
              "notes") == "0");
    CHECK(lua("local y = randn(1, 200, 1, 2) linear_attention_step(y, y, y, zeros(1, 200, 2, 2)) "
              "tree_decode(y, randn(1, 200, 300, 2), randn(1, 200, 300, 2)) "
              "benchmark_method('fleet', {lengths = {8}, heads = 100, rank = 2, repeats = 1, show = false}) "
              "return notes") == "0");
}
