// Low-rank factors as a person calls them: what is returned, options, the registry, help and completion, refused calls.
#include "lua/shell/complete.hpp"
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

namespace {

bool ends_with(const std::string& text, const std::string& end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

TEST_CASE("lowrank returns factors, and what a factorisation has beside them", "[lua][lowrank]") {
    Shell lua;
    lua("q, k = randn(1, 2, 40, 4), randn(1, 2, 40, 4)");
    CHECK(lua("local n = 0 for _, m in ipairs(lowrank_method_list()) do local B, C = lowrank(m.name, q, k) "
              "if size(B, 3) == 40 and size(C, 4) == size(B, 4) and eltype(B) == 'Float32' then n = n + 1 end end "
              "return n") == "13");
    CHECK(lua("return size((lowrank('favor+', q, k, {rank = 7})))") == "1 2 40 7");
    CHECK(lua("local x, y = f64(q), f64(k) local B, C = lowrank('svd', x, y, {rank = 40}) return maximum(abs(B * C:t() "
              "- exp(x * y:t() / 2))) < 1e-10") == "true");
    CHECK(lua("local a = lowrank('rfa', q, k, {rank = 8, seed = 3}) local b = lowrank('rfa', q, k, {rank = 8, seed = "
              "3}) local c = lowrank('rfa', q, k, {rank = 8, seed = 4}) return norm(a - b), norm(a - c) > 0") ==
          "0.0 true");
    CHECK(lua("seed(5) local a = lowrank('lara', q, k, {rank = 8}) local b = lowrank('lara', q, k, {rank = 8}) seed(5) "
              "return norm(a - lowrank('lara', q, k, {rank = 8})), norm(a - b) > 0") == "0.0 true");
    CHECK(lua("return select('#', lowrank('nystrom', q, k, {rank = 7, iterations = 6}))") == "2");
    CHECK(lua("local _, _, e = lowrank('hyper', q, k, {rank = 8, block = 16}) return maximum(e.key_block), "
              "size(e.query_block)") == "3.0 1 2 40");
    CHECK(lua("local _, _, e = lowrank('favor+', q, k, {rank = 8, rows = true}) return size(e.log_rows)") == "1 2 40");
    CHECK(lua("local _, _, e = lowrank('skeinformer', q, k, {rank = 8, pilot = 5, v = randn(1, 2, 40, 3)}) return "
              "sum(e.exact_rows), size(e.exact_rows)") == "10.0 1 2 40");
    CHECK(lua("local _, _, e = lowrank('transformer-vq', q, k, {rank = 8}) return minimum(e.code), maximum(e.code)") ==
          "1.0 8.0");
}

TEST_CASE("lowrank_error tells both errors and their bounds", "[lua][lowrank]") {
    Shell lua;
    lua("q, k, v = randn(1, 2, 40, 4), randn(1, 2, 40, 4), randn(1, 2, 40, 3) B, C = lowrank('nystrom', q, k, {rank = "
        "5}) e = lowrank_error(q, k, B, C, {v = v})");
    CHECK(lua("return e.frobenius.ratio <= e.frobenius.ratio_bound, e.operator.ratio <= e.operator.ratio_bound, "
              "e.operator.ratio_bound == masking_constant(40), #e.heads") == "true true true 2");
    // The bound is that of the masked error, as in the table.
    CHECK(lua("for _, n in ipairs{e.frobenius, e.operator, e.heads[2].operator} do "
              "assert(n.masked <= n.bound and n.bound == n.ratio_bound * n.unmasked) end "
              "return e.frobenius.ratio_bound, e.frobenius.bound == e.frobenius.unmasked") == "1.0 true");
    CHECK(lua("z = masked_norms(zeros(4, 4, 'f64')) return z.frobenius.ratio, z.operator.ratio") == "0.0 0.0");
    CHECK(lua("x = zeros(5, 2, 'f64') one = ones(5, 1, 'f64') z = lowrank_error(x, x, one, one) return "
              "z.frobenius.relative, z.frobenius.ratio, z.operator.relative_masked") == "0.0 0.0 0.0");
    CHECK(lua("return math.abs(e.frobenius.unmasked / norm(exp(f64(q) * f64(k):t() / 2) - f64(B) * f64(C):t()) - 1) < "
              "1e-6") == "true");
    CHECK(lua("return e.output.row_share <= 1, e.output.masked <= e.output.row_bound, e.heads[1].output.masked <= "
              "e.output.masked") == "true true true");
    CHECK(lua("local u = lowrank_error(q, k, B, C, {mask = false}) return u.frobenius.masked, u.frobenius.unmasked == "
              "e.frobenius.unmasked, u.output") == "nil true nil");
    // With one block hyper is exact, once its blocks are known.
    CHECK(lua("local B, C, x = lowrank('hyper', q, k) return lowrank_error(q, k, B, C, {extras = "
              "x}).frobenius.unmasked, lowrank_error(q, k, B, C).frobenius.unmasked > 1") == "0.0 true");
    CHECK(lua("local m = masked_norms(masked_worst_case(64)) return m.operator.ratio <= m.operator.ratio_bound, "
              "m.operator.ratio > 1.6, math.abs(m.frobenius.unmasked - 8) < 1e-9") == "true true true");
}

TEST_CASE("every factorisation has a page of help and its options are completed", "[lua][lowrank]") {
    Shell lua;
    CHECK(lua("local sections = causeway._sections() for _, m in ipairs(lowrank_methods()) do local all = "
              "sections[m.name] or {} local last = all[#all] or {} if last.source ~= m.source or last.text ~= m.text "
              "then return m.name end end return 'all'") == "all");
    const std::unique_ptr<lua_State, void (*)(lua_State*)> state{causeway::lua::new_state(), lua_close};
    const auto words = [&](const std::string& text) { return causeway::lua::complete(state.get(), text).words; };
    CHECK(words("lowrank(\"fav") == std::vector<std::string>{"favor+"});
    CHECK(words("lowrank(\"svd\", q, k, {ran") == std::vector<std::string>{"rank"});
    CHECK(words("lowrank(\"hyper\", q, k, {lsh") == std::vector<std::string>{"lsh_num_projs"});
    CHECK(words("?favor") == std::vector<std::string>{"favor+"});
}

TEST_CASE("lowrank calls say in one sentence what does not fit", "[lua][lowrank]") {
    Shell lua;
    lua("x = ones(1, 2, 8, 4)");
    const auto refused = [&](const std::string& code, const std::string& message) {
        CAPTURE(code);
        const std::string got = lua("return " + code);
        CAPTURE(got);
        CHECK(ends_with(got, message));
    };
    refused("lowrank('performer', x, x)",
            "name: no factorisation is named \"performer\" (it is called \"favor+\" here, see ?performer)");
    refused("lowrank('nistrom', x, x)", "name: no factorisation is named \"nistrom\" (did you mean \"nystrom\"?)");
    refused(
        "lowrank('spiky', x, x)",
        "name: no factorisation is named \"spiky\", expected one of \"favor+\", \"rfa\", \"lara\", \"nystrom\", "
        "\"linformer\", "
        "\"skyformer\", \"skeinformer\", \"transformer-vq\", \"hyper\", \"taylor\", \"hedgehog\", \"svd\", \"rsvd\"");
    refused("lowrank('svd', x, x, {rank = 0})", "rank: 0, expected 1 or more");
    refused("lowrank('svd', x, x, {rank = 9})", "rank: 9, expected at most 8, the length");
    refused("lowrank('svd', x, x, {iterations = 9})",
            "lowrank: unknown option \"iterations\", expected one of rank, seed, scale, device");
    refused("lowrank('svd', x / 0, x)", "q: entry (1, 1, 1, 1) is Inf, expected finite numbers");
    refused("lowrank('rsvd', x, x, {seed = -1})", "seed: -1, expected 0 or more");
    refused("lowrank('favor+', x, x, {rows = 1})", "rows: expected true or false, got a number");
    refused("lowrank('svd', x, x, {v = x})",
            "lowrank: unknown option \"v\", expected one of rank, seed, scale, device");
    refused("lowrank('skeinformer', x, x, {v = 3})", "v: expected a Tensor, got a number");
    refused("lowrank('linformer', x * 1e30, x)", "q: the factors overflow, expected smaller queries, keys or scale");
    refused("lowrank('svd', x)", "k: expected a Tensor, got nothing");
    refused("opcount(function() lowrank('svd', x, x) end)",
            "opcount: lowrank is not counted, expected the factors to be made before");
    refused("lowrank_error(x, x, x, x, {extras = 1})", "extras: expected the table that lowrank returns, got a number");
    refused("lowrank_error(x, x, x, x, {extras = {key_blok = x}})",
            "extras: \"key_blok\" is nothing that lowrank returns, expected log_rows, query_block, key_block, "
            "exact_rows or code");
    refused("lowrank('hyper', x, x, {block = 0})", "block: 0, expected a whole number from 1 to 1048576");
    refused("masked_worst_case(3, 'V')", "which: \"V\", expected \"W\", \"G\" or \"H\"");
}

TEST_CASE("lowrank_error names heads by batch and head, and shows the worst of many", "[lua][lowrank]") {
    Shell lua;
    lua("seed(2) function errors(b, h) local q, k = randn(b, h, 20, 4), randn(b, h, 20, 4) "
        "local B, C = lowrank('favor+', q, k, {rank = 8}) return lowrank_error(q, k, B, C) end e = errors(2, 4)");
    CHECK(lua("return #e.heads, e.heads[7].batch, e.heads[7].head, e.heads[4].batch, e.heads[4].head") == "8 2 3 1 4");
    lua("worst = 1 for i, x in ipairs(e.heads) do "
        "if x.frobenius.relative_masked > e.heads[worst].frobenius.relative_masked then worst = i end end");
    CHECK(lua("local x, text = e.heads[worst], tostring(e) "
              "return text:find(('worst: [%d, %d]'):format(x.batch, x.head), 1, true) ~= nil, "
              "select(2, text:gsub('%[%d, %d%]', '')), text:find('has all 8 heads', 1, true) ~= nil") == "true 4 true");
    CHECK(lua("return select(2, e:table{heads = true}:text():gsub('%[[12], [1234]%]', ''))") == "16");
    CHECK(lua("return select(2, tostring(errors(2, 2)):gsub('%[[12], [12]%]', ''))") == "4");
    CHECK(lua("return select(2, errors(2, 2):table{heads = true}:text():gsub('%[[12], [12]%]', ''))") == "8");
    CHECK(lua("return tostring(errors(1, 2)):find('worst: [12]') ~= nil, tostring(errors(1, 1)):find('worst')") ==
          "true nil");
    // An error that is larger than what is approximated is told.
    CHECK(lua("local q, B = randn(20, 4), randn(20, 4) return tostring(lowrank_error(q, q, B * 100, B)):gsub('%s+', "
              "' '):find('a relative error above 1 is more than that of zeros', 1, true) ~= nil, "
              "tostring(lowrank_error(q, q, B * 0, B)):find('above 1', 1, true)") == "true nil");
    CHECK(lua("return tostring(errors(1, 4)):find('[', 1, true)") == "nil");
    CHECK(lua("e:table{head = true}").starts_with("user:1: table: got {head = true}, expected nothing or"));
}
