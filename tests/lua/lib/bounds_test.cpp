#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using namespace causeway::testing;

TEST_CASE("check_bound shows claim, measured, bound and margin, and returns them", "[lua][bounds]") {
    Shell lua;
    lua("seed(3) X = randn(30, 30) e = check_bound('A2', {X = X})");
    CHECK(lua("return #e, e.claim, e.holds, e[1].what, e[1].holds, e[1].exactly") ==
          "1 A2 true ‖tril X‖ ≤ U_n ‖X‖ true false");
    CHECK(lua("return e.proof, e.source") == "proofs/masking.md fleet Theorem 4.1");
    CHECK(lua("local m = masked_norms(X).operator return e[1].measured == m.masked, math.abs(e[1].bound / m.bound "
              "- 1) < 1e-5") == "true true");
    const std::string text = lua("return e");
    for (const char* part : {"claim", "measured", "bound", "margin", "holds", "A2", "×", "yes", "proofs/masking.md"}) {
        INFO(part);
        CHECK(text.find(part) != std::string::npos);
    }
    CHECK(lua("return check_bound('a2', X)[1].measured == e[1].measured") == "true");
    // What is checked stands on the page of the claim and above its inputs too.
    CHECK(lua("return (tostring(check_bound('A2')):find('A2: masking: ‖tril X‖ ≤ U_n ‖X‖', 1, true))") == "1");
    CHECK(lua("return (causeway._page_of('A1')):find('Masking: ‖tril X‖_F ≤ ‖X‖_F.', 1, true) ~= nil") == "true");
    CHECK(lua("return e:markdown()").find("| A2 ") != std::string::npos);
    // A line of the note is a paragraph.
    CHECK(lua("return check_bound('B7', {B = ones(4, 2), C = ones(4, 2), V = ones(4, 2)}):markdown()")
              .find("in Float64\n\nproofs/exact.md; margin: ") != std::string::npos);
    CHECK(lua("return e:latex()").find("\\toprule") != std::string::npos);
    CHECK(lua("local b = check_bound('B7', {B = ones(1, 1, 4, 2), C = ones(1, 1, 4, 2), V = ones(1, 1, 4, 2)}) "
              "local text = b:latex({'claim'}) return text") ==
          "user:1: latex: got an argument, expected none: text_table makes a table of any rows and title");
    CHECK(
        lua("B, C, V = randn(20, 3), randn(20, 3), randn(20, 2) return check_bound('B1', {B = B, C = C, V = V, method "
            "= 'row-based'})[1].measured, #check_bound('B7', {B = B, C = C, V = V})")
            .starts_with("240.0 1"));
}

TEST_CASE("tables of claims are LaTeX: ASCII, formulas between dollars, underscores within them or escaped",
          "[lua][bounds]") {
    Shell lua;
    lua("function faults(latex) local found = {} "
        "for at, byte in latex:gmatch('()([\\128-\\255])') do found[#found + 1] = latex:sub(at - 9, at + 9) end "
        "local plain = latex:gsub('\\\\[\\\\${}_&#%%]', '') "
        "if select(2, plain:gsub('%$', '')) % 2 > 0 then found[#found + 1] = 'a dollar' end "
        "local outside = plain:gsub('%$[^$]*%$', '') "
        "if outside:find('[_^]') then found[#found + 1] = outside:match('.?.?.?.?[_^].*') end "
        "return table.concat(found, ' | ') end");
    CHECK(lua("return faults('a_b'), faults('$'), faults('‖'), faults('a$_{b}$ \\\\_ \\\\$')") != "   ");
    CHECK(lua("return faults('$a_b \\\\le$ \\\\_ \\\\$')") == "");
    CHECK(lua("local n = 0 for _, claim in ipairs(check_bound()) do n = n + 1 "
              "local said = faults(check_bound(claim.id):latex()) if said ~= '' then return claim.id, said end end "
              "return n > 20, faults(check_bound():latex())") == "true ");
    CHECK(
        lua("X, q = randn(20, 20), randn(12, 3) local E = exp(X) local all = {check_bound('A1', X), check_bound('A7', "
            "{X = X, decay = "
            "0.9}), check_bound('A9', {A = E, At = E + 0.1, V = X}), check_bound('A10', {A = E, At = E + 0.1, V = X}), "
            "check_bound('B7', {B = q, C = q, V = q}), check_bound('F9', {k = l2norm(q), beta = rand(12)}), "
            "check_bound('H10', {s = X(1), v = X})} "
            "for _, e in ipairs(all) do local said = faults(e:latex()) if said ~= '' then return e.claim, said end end "
            "local B, C = lowrank('favor+', q, q, {rank = 8}) "
            "return #all, faults(lowrank_error(q, q, B, C, {v = q}):latex()), faults(lowrank_methods():latex()), "
            "faults(methods():latex())") == "7   ");
    CHECK(lua("return check_bound('A1', X):latex()").find("$\\|$tril X$\\| _{F}$ $\\le$ $\\|$X$\\| _{F}$ & ") !=
          std::string::npos);
    CHECK(
        lua("return text_table({{a = '‖Δ_i‖₁ diam_i / |d̃_i|, top_k of bits_per_byte'}}):latex()")
            .find("  $\\| \\Delta _{i} \\| _{1}$ diam$_{i}$ / $| \\tilde{d} _{i} |$, top$_{k}$ of bits\\_per\\_byte") !=
        std::string::npos);
}

TEST_CASE("a bound that does not hold, and what is not a number, are said in words", "[lua][bounds]") {
    Shell lua;
    const std::string nan = lua("return check_bound('A1', randn(4, 4) * (0 / 0))");
    CHECK(nan.find("X has numbers that are NaN or") != std::string::npos);
    CHECK(nan.find("not a number") != std::string::npos);
    CHECK(nan.find("NOT A NUMBER in 1 of 1 row") != std::string::npos);
    CHECK(nan.find("yes") == std::string::npos);
    CHECK(lua("return check_bound('A1', randn(4, 4) / 0).holds") == "false");
    const std::string vanished = lua("return check_bound('A9', {A = ones(3, 3), At = zeros(3, 3), V = randn(3, 1)})");
    CHECK(vanished.find("nan") == std::string::npos);
    CHECK(vanished.find("not a number") != std::string::npos);
    // No claim fails on an input, so a row of one that would is made by hand.
    const std::string no =
        lua("e = check_bound('A1', randn(4, 4)) e[1].measured, e[1].holds, e.holds = 2 * e[1].bound, false, false "
            "return e");
    CHECK(no.find(" no") != std::string::npos);
    CHECK(no.find("×0.500") != std::string::npos);
    CHECK(no.find("DOES NOT HOLD in 1 of 1 row") != std::string::npos);
}

TEST_CASE("check_bound lists claims and the inputs of one", "[lua][bounds]") {
    Shell lua;
    const std::string list = lua("return check_bound()");
    for (const char* id : {"A1", "A9", "B7", "F4", "F9", "H5", "H11", "H12"})
        CHECK(list.find(std::string("\n ") + id + " ") != std::string::npos);
    const std::string one = lua("return check_bound('F9')");
    CHECK(one.find("beta") != std::string::npos);
    CHECK(one.find("(optional)") != std::string::npos);
    CHECK(lua("return #check_bound(), check_bound()[1].id, check_bound('H2').inputs[1].name") == "29 A1 s");
    CHECK(lua("return causeway.manual.check_bound.text:find('A10') ~= nil") == "true");
}

TEST_CASE("the letters of a claim are explained below its tables and on its page", "[lua][bounds]") {
    Shell lua;
    lua("seed(1) B, C, V = randn(9, 2), randn(9, 2), randn(9, 2) function flat(x) return (tostring(x):gsub('%s+', ' "
        "')) "
        "end");
    for (const char* shown : {"flat(check_bound('B7', {B = B, C = C, V = V}))", "flat(check_bound('B7'))",
                              "flat(causeway._sections().B7[1].parts[1][2])"}) {
        const std::string text = lua(std::string("return ") + shown);
        CAPTURE(text);
        CHECK(text.find("k: the roundings that an output may meet") != std::string::npos);
        CHECK(text.find("Π = (|B||C|ᵀ ⊙ M)|V|, the same sums of absolute values") != std::string::npos);
    }
    CHECK(lua("return check_bound('B7', {B = B, C = C, V = V}).terms == check_bound('B7').terms") == "true");
    CHECK(lua("return flat(check_bound('D1')):find('D1: .* proofs/fleet.md %(fleet 4.2%) ?$') ~= nil") == "true");
    CHECK(lua("local widest = 0 for line in tostring(check_bound('A9')):gmatch('[^\\n]+') do widest = math.max(widest, "
              "causeway._text_width(line)) end return widest <= 80") == "true");
}

TEST_CASE("check_bound says in one sentence what does not fit", "[lua][bounds]") {
    Shell lua;
    CHECK(lua("check_bound('Z1', {})")
              .starts_with("user:1: check_bound: claim: \"Z1\" is none that can be checked, expected one of A1 A2 "));
    CHECK(lua("check_bound(3)") == "user:1: check_bound: claim: expected an id such as \"A9\", got a number");
    CHECK(lua("check_bound('A1', {})") == "user:1: A1: X: missing, expected a matrix, [n, n]");
    CHECK(lua("check_bound('A1', 3)") ==
          "user:1: inputs: expected a table of name = value, got a number; A1 takes X [n, n]");
    // What is missing, unknown or of another shape is said with the shapes of all inputs, of every claim.
    const std::string takes = "; F9 takes k [C, r], beta [C], optional a [C]";
    CHECK(lua("check_bound('F9', {k = ones(3, 2)})") ==
          "user:1: F9: beta: missing, expected β of each, from 0 to 2/|k|², [C]" + takes);
    CHECK(lua("check_bound('F9', {k = ones(3, 2), beta = ones(4)})") ==
          "user:1: F9: beta: 4, expected [C] with C = 3, as k has" + takes);
    CHECK(lua("check_bound('F9', {k = ones(3, 2), beta = 'b'})").ends_with(", [C]" + takes));
    CHECK(lua("check_bound('F9', {q = ones(3, 2)})") == "user:1: F9: has no input \"q\"" + takes);
    CHECK(lua("check_bound('F9', 3)").ends_with("got a number" + takes));
    CHECK(lua("return check_bound('B1').takes") ==
          "B, C [..., N, r], V [..., N, d], optional method (text), block (whole number), decay (number), "
          "normalize (true or false)");
    CHECK(
        lua("local help = causeway._page_of('check_bound'):gsub('%s+', '') for _, claim in ipairs(check_bound()) do "
            "if not help:find(claim.takes:gsub('%s+', ''), 1, true) then return claim.id, help end end return 'all'") ==
        "all");
    CHECK(lua("return tostring(check_bound()):find('k %[C, r%], beta %[C%], optional') ~= nil") == "true");
    CHECK(lua("check_bound('A1', {randn(2, 2)})") ==
          "user:1: inputs: expected a table of name = value, got the key 1; A1 takes X [n, n]");
    CHECK(lua("check_bound('A1', {X = {}})") == "user:1: X: expected a Tensor, got a table");
    CHECK(lua("check_bound('B7', 1, 2)") ==
          "user:1: check_bound: inputs: several, expected one table of name = value, as check_bound(claim) lists them");
    CHECK(
        lua("register_method{name = 'mine', forward = causal_linear_attention} check_bound('B7', {B = ones(2, 2), C = "
            "ones(2, 2), V = ones(2, 2), method = 'mine'})") ==
        "user:1: check_bound: method: \"mine\" is written in Lua, and B7 is of the built-in methods; "
        "benchmark_method(\"mine\") compares it with the definition");
    CHECK(lua("check_bound('B7', {B = ones(2, 2), C = ones(2, 2), V = ones(2, 2), method = 'mien'})")
              .find("no method is named \"mien\"") != std::string::npos);
    CHECK(lua("B = ones(2, 2) return check_bound('B7', {q = B, k = B, v = B}).holds") == "true");
    CHECK(lua("check_bound('B7', {q = B, B = B, k = B, v = B})") ==
          "user:1: check_bound: inputs: q and B are the same, expected one of them");
    CHECK(lua("check_bound('A9', {A = ones(2, 2), At = ones(2, 2), v = ones(2, 1)})") ==
          "user:1: A9: has no input \"v\" (did you mean \"V\"?); A9 takes A, At [N, N], V [N, d]");
    CHECK(lua("check_bound('B7', {B = ones(2, 2), C = ones(2, 3), V = ones(2, 1)})") ==
          "user:1: B7: C: 2×3, expected [..., N, r] with r = 2, as B has; B7 takes B, C [..., N, r], V "
          "[..., N, "
          "d], optional method (text), block (whole number)");
}

TEST_CASE("lowrank_error speaks of claim A10 where a row has it", "[lua][lowrank][bounds]") {
    Shell lua;
    lua("q = randn(8, 4) B, C = lowrank('svd', q, q, {rank = 2})");
    CHECK(lua("return tostring(lowrank_error(q, q, B, C)):find('A10'), "
              "tostring(lowrank_error(q, q, B, C, {v = q})):find('A10 F and op') ~= nil") == "nil true");
}

TEST_CASE("lowrank_error shows the claims that bound its errors", "[lua][lowrank][bounds]") {
    Shell lua;
    lua("q, k, v = randn(40, 4), randn(40, 4), randn(40, 3) B, C = lowrank('nystrom', q, k, {rank = 5}) e = "
        "lowrank_error(q, k, B, C, {v = v})");
    const std::string text = lua("return e");
    for (const char* part : {"claim", "bound", "margin", "A1", "A2", "A9", "A10", "frobenius", "output"}) {
        INFO(part);
        CHECK(text.find(part) != std::string::npos);
    }
    // What is an error and what a share of the matrix is told apart: the masked error stands beside its bound.
    CHECK(lua("return tostring(e):gsub('%s+', ' '):find('claim unmasked masked bound margin relative rel. masked', 1, "
              "true) ~= nil") == "true");
    CHECK(lua("return e:markdown():match('| operator | A2 | [%d.e]+ | ([%d.]+) | ([%d.]+) |')") ==
          lua("return causeway.number_text(e.operator.masked, 3), "
              "causeway.number_text(e.operator.bound, 3)"));
    // Norms beside each other are written in one way, large ones too.
    CHECK(lua("local large = lowrank_error(4 * q, 4 * k, 1000 * B, 1000 * C) "
              "local line = large:markdown():match('| frobenius | A1 | [^\\n]*') "
              "return select(2, line:gsub('| [%d.]+e%d+ ', '')) >= 3, line:match('| %d%d%d%d%d+ ')") == "true nil");
    // Two bounds of one claim are told apart.
    CHECK(text.find("A10 F ") != std::string::npos);
    CHECK(text.find("A10 op ") != std::string::npos);
    const std::string bare = lua("return lowrank_error(q, k, B, C, {mask = false})");
    CHECK(bare.find("claim") == std::string::npos);
    CHECK(lua("return lowrank_error(zeros(5, 2, 'f64'), zeros(5, 2, 'f64'), ones(5, 1, 'f64'), ones(5, 1, "
              "'f64')):table():text()")
              .find("exact") != std::string::npos);
}

TEST_CASE("check_bound says an unknown input first, and takes a decay a head", "[lua][bounds]") {
    Shell lua;
    lua("seed(3) B, C, V = rand(2, 3, 20, 4), rand(2, 3, 20, 4), randn(2, 3, 20, 5) x = {B = B, C = C, V = V}");
    lua("function with(decay) local y = {decay = decay} for name, value in pairs(x) do y[name] = value end "
        "return y end");
    for (const char* decay : {"{1, 0.9, 0.5}", "tensor{1, 0.9, 0.5}"}) {
        INFO(decay);
        const std::string given = std::string("with(") + decay + ")";
        CHECK(lua("return check_bound('B7', " + given + ")") ==
              "B7: has no input \"decay\"; B7 takes B, C [..., N, r], V [..., N, d], optional method (text), "
              "block (whole number)");
        CHECK(lua("local e = check_bound('C3', " + given +
                  ") local n = #e // 3 return e.holds, #e % 3, "
                  "(e[1].what:match(', head %d$')), (e[#e].what:match(', head %d$')), "
                  "e[n + 1].measured <= check_bound('C3', with(0.9))[1].measured") == "true 0 , head 1 , head 3 true");
    }
    CHECK(lua("check_bound('C3', with{1, 0.9})")
              .starts_with("user:1: check_bound: decay: 2 numbers, one a head, beside B = [2, 3, 20, 4], "
                           "expected [b, 2, N, width]"));
    CHECK(lua("check_bound('A7', {X = randn(4, 4), decay = {1}})")
              .ends_with("expected a number: the inputs of A7 have no heads"));
}
