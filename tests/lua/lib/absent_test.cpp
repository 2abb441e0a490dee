// A field that a result has not is an error with the names there are, for the user, and nil for the library.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

namespace {

bool begins(const std::string& text, const std::string& part) { return text.rfind(part, 0) == 0; }

}  // namespace

TEST_CASE("a benchmark and its rows name the fields they have", "[lua][absent]") {
    Shell lua;
    lua("b = benchmark_method('fleet', {lengths = {16}, repeats = 2, show = false})");
    CHECK(lua("return b.rows") ==
          "user:1: a benchmark has no \"rows\": the value is the list of its rows, x[1], x[2] ..., #x of them");
    CHECK(lua("return b.lenghts") ==
          "user:1: a benchmark has no \"lenghts\" (did you mean \"lengths\"?): it has lengths, title, compared, "
          "tolerance, "
          "by_definition, origin and messages, and the methods latex, markdown, plot, save, show and table");
    CHECK(
        begins(lua("return b.mean"), "user:1: a benchmark has no \"mean\": each row has it, for i, row in ipairs(b)"));
    CHECK(begins(lua("return b:tabel()"), "user:1: a benchmark has no \"tabel\" (did you mean \"table\"?)"));
    CHECK(begins(lua("return b[1].meen"),
                 "user:1: a row has no \"meen\" (did you mean \"mean\"?): it has N, error, mean, "));
    // What only some have is nil, and so is everything that is no name.
    CHECK(lua("return b[1].message, b[2], b[true], b.__len, b[1].status, b.lengths[1]") == "nil nil nil nil ok 16");
    CHECK(lua("local n = 0 for i, row in ipairs(b) do n = n + i end for key in pairs(b[1]) do n = n + 1 end return n > "
              "5") == "true");
    CHECK(lua("b.mine = 3 return b.mine") == "3");
    CHECK(begins(lua("return tostring(b)"), "Milliseconds a call"));
    CHECK(lua("return plot(b) ~= nil, plot({b[1], b[1]}, 'N', 'mean') ~= nil, text_table(b) ~= nil") ==
          "true true true");
    CHECK(lua("b:save(dir .. 'b.csv') return #load(dir .. 'b.csv')") == "1");
}

TEST_CASE("every kind of result names the fields it has", "[lua][absent]") {
    Shell lua;
    lua("q, k, v = randn(1, 1, 8, 4), randn(1, 1, 8, 4), randn(1, 1, 8, 4)");
    lua("B, C, extras = lowrank('nystrom', q, k, {rank = 4})  e = lowrank_error(q, k, B, C)");
    lua("m = model('llama', {weights = 'random', size = 'tiny'})");
    lua("r = sweep{grid = {N = {1, 2}}, run = function(p) return {time = p.N} end}");
    lua("_, report = tree_decode(q({1, 1}, {1, 1}, {1, 1}), k, v, {shards = 2})");
    lua("function value() return 1 end");
    struct Case {
        const char *code, *said;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"btime(value, {show = false, samples = 3}).time",
              "a timing has no \"time\": seconds of a call are minimum"},
             {"btime(value, {show = false, samples = 3}).min",
              "a timing has no \"min\" (did you mean \"minimum\"?): it has minimum, median, mean, std, samples and "
              "memory"},
             {"summary{1, 2}.avg",
              "a summary has no \"avg\" (it is called \"mean\" here, see ?avg): it has count, minimum"},
             {"machine().cpu", "a machine has no \"cpu\": processor is its name"},
             {"cost('fleet', {N = 8, r = 2}).muls", "a cost has no \"muls\""},
             {"cost('fleet', {N = 8, r = 2}).add", "a cost has no \"add\" (did you mean \"adds\"?)"},
             {"opcount(function() causal_linear_attention(q, k, v, {method = 'fleet'}) end).mul",
              "a count has no \"mul\" (did you mean \"multiplies\"?): it has adds, divisions, exponentials and "
              "multiplies"},
             {"causal_linear_attention_grad(q, k, v, v).dQ",
              "a table of gradients has no \"dQ\" (did you mean \"dq\"?): it has dB, dC, dV, dk, dq and dv"},
             {"linear_attention_grad(q, k, v, v).dO", "a table of gradients has no \"dO\""},
             {"linear_attention_grad(q, k, v, v, {layout = 'bhnd'}).grad", "a table of gradients has no \"grad\""},
             {"general_linear_attention_grad(q, k, v, v).dbeta", "a table of gradients has no \"dbeta\""},
             {"e.norm", "a table of errors has no \"norm\": it has frobenius, operator, output, residual and heads"},
             {"e.frobenius.rel", "an error of a norm has no \"rel\" (did you mean \"relative\"?)"},
             {"e.heads[1].fro", "the errors of a head has no \"fro\" (did you mean \"frobenius\"?)"},
             {"masked_norms(ones(3, 3)).nuclear", "a table of norms has no \"nuclear\": it has frobenius and operator"},
             {"check_bound('B7', {B = q, C = k, V = v}).rows",
              "a checked bound has no \"rows\": the value is the list"},
             {"check_bound('B7', {B = q, C = k, V = v})[1].ratio", "a row has no \"ratio\": it has bound, exactly, "},
             {"check_bound('B7', {B = q, C = k, V = v}).margin", "a checked bound has no \"margin\": each row has it"},
             {"e.bound", "a table of errors has no \"bound\": each norm has it: e.frobenius.bound"},
             {"m:layers().cost", "a list of layers has no \"cost\" (it is a function here: cost(method, "},
             {"check_bound('B7').name", "a claim has no \"name\""},
             {"check_bound().rows", "a list of claims has no \"rows\""},
             {"method_list()[1].nme", "a method has no \"nme\" (did you mean \"name\"?)"},
             {"lowrank_method_list()[1].nme", "a factorisation has no \"nme\" (did you mean \"name\"?)"},
             {"report.bites", "a report has no \"bites\" (did you mean \"bytes\"?)"},
             {"report.workers[1].time", "a worker has no \"time\""},
             {"m:about().context_length", "a model's table has no \"context_length\" (did you mean \"context\"?)"},
             {"m:layers().rows", "a list of layers has no \"rows\""},
             {"m:layers()[1].num_heads", "a layer has no \"num_heads\""},
             {"text_table({{a = 1}}).row", "a table has no \"row\" (did you mean \"rows\"?)"},
             {"plot({1, 2}).savefig", "a picture has no \"savefig\": p:save(\"figure.svg\") writes it"},
             {"report{title = 'a', 'b'}.text", "a page has no \"text\""},
             {"recurrence{}.beta", "a rule has no \"beta\": it has name, a, u, w, k, v and q, and the methods"},
             {"r.time", "results have no \"time\" of their own: results:column(\"time\")"},
             {"r.rows", "results have no \"rows\": results[1], results[2] ... are its rows"},
             {"r.tiem",
              "a table of results has no \"tiem\": it has columns, names, origins, folder and units, and the"},
         }) {
        CAPTURE(c.code);
        if (std::string(c.code) == "report{title = 'a', 'b'}.text") lua("report = causeway.report");
        CHECK(begins(lua(std::string("return ") + c.code), std::string("user:1: ") + c.said));
    }
    CHECK(begins(lua("plot({1, 2}).title = 'T'"),
                 "user:1: a picture is drawn when it is made: plot{x = x, y = y, title"));
    CHECK(lua("text_table({{a = 1}}, {columns = {{key = 'a', name = 'b'}}})") ==
          "user:1: columns: item 1: unknown field \"name\" (it is called \"title\" here, see ?title)");
    // Fields that only some have are nil in the others.
    CHECK(lua("return r.folder, r.units, m:layers()[1].replaced, method_list()[1].block, e.output, "
              "causal_linear_attention_grad(q, k, v, v).ddecay") == "nil nil nil nil nil nil");
    CHECK(lua("return lowrank_error(q, k, B, C, {mask = false}).frobenius.masked") == "nil");
}

TEST_CASE("records are shown, listed and compared as plain tables are", "[lua][absent]") {
    Shell lua;
    CHECK(lua("return tostring(cost('fleet', {N = 8, r = 2})) == tostring(causeway._printable{adds = "
              "cost('fleet', {N = 8, r = 2}).adds, divisions = 0, memory = cost('fleet', {N = 8, r = 2}).memory, "
              "multiplies = cost('fleet', {N = 8, r = 2}).multiplies})") == "true");
    CHECK(lua("local n = 0 for _ in pairs(cost('fleet', {N = 8, r = 2})) do n = n + 1 end return n") == "4");
    CHECK(lua("return next(causeway._result({}, 'a thing')), #causeway._result({1, 2}, 'a thing')") == "nil 2");
    CHECK(lua("return causeway._result({a = 1}, 'a thing').b") == "user:1: a thing has no \"b\": it has a");
    CHECK(lua("return causeway._result({a = 1}, 'a thing', 'b c').b") == "nil");
}
