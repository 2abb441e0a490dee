#include <cmath>

#include <sys/stat.h>

#include "core/tensor/npy.hpp"
#include "tests/catch.hpp"
#include "tests/core/tensor/stored_values.hpp"
#include "tests/lua/program.hpp"
#include "tests/lua/shell.hpp"

using namespace causeway;
using namespace causeway::testing;

namespace {

// A shell whose scripts find the folder of the golden files as `data`.
class FileShell : public Shell {
public:
    FileShell() { set("data", golden("")); }
};

}  // namespace

TEST_CASE("a third argument of save that is no table is told without naming options there are not", "[files][lua]") {
    FileShell run;
    CHECK(run("save(dir .. 'x.npy', zeros(2), 5)") == "user:1: save: takes no options here, got a number");
    CHECK(run("save(dir .. 'x.csv', {{a = 1}}, 5)") ==
          "user:1: save: options: expected a table such as {columns = ...}, got a number");
}

TEST_CASE("rows of a .csv file give columns by their method and name those there are", "[files][lua]") {
    FileShell run;
    run("save(dir .. 'd.csv', {{gamma = 0.5, N = 8}, {gamma = 0.25}}) d = load(dir .. 'd.csv')");
    CHECK(run("return table.concat(d:column('gamma'), ' ')") == "0.5 0.25");
    CHECK(run("return table.concat(d:column('N'), ' ')") == "8");
    CHECK(run("return {decay = d.gamma}") ==
          "user:1: rows have no \"gamma\" of their own: rows:column(\"gamma\") is the list of that column, "
          "rows[1].gamma that of the first row");
    CHECK(run("return d.gama").starts_with("user:1: a list of rows with the columns N, gamma has no \"gama\""));
    CHECK(run("return d:column('gama')") == "column: no row has \"gama\", expected one of N, gamma");
    CHECK(run("tensor(d)") ==
          "user:1: tensor: rows of named columns, expected numbers: tensor(rows:column(\"N\")) is one column, "
          "tensor{rows:column(\"N\"), rows:column(\"gamma\")}:t() are two");
    CHECK(run("tensor(load(dir .. 'd.csv'))").starts_with("user:1: tensor: rows of named columns"));
    CHECK(run("return tensor(d:column('gamma')) == tensor{0.5, 0.25}") == "true");
    // They are tables of rows as ever.
    CHECK(run("save(dir .. 'e.csv', d) return #load(dir .. 'e.csv'), next(d), d[3]").starts_with("2 1 "));
    CHECK(run("return tostring(text_table(d)):find('gamma', 1, true) ~= nil") == "true");
}

TEST_CASE("load and save carry tensors through files", "[files][lua]") {
    FileShell run;
    CHECK(same(run.tensor("return load(data .. 'f4_2x3.npy')"), golden_tensor(DType::f32, {2, 3})));
    CHECK(run("save(dir .. 'a.npy', load(data .. 'f8_big_fortran_2x3x4.npy'))").empty());
    CHECK(same(load_npy(run.path("a.npy")), golden_tensor(DType::f64, {2, 3, 4})));

    CHECK(run("local t, meta = load(data .. 'floats.safetensors'); return meta['made by']") == "safetensors");
    CHECK(same(run.tensor("return load(data .. 'floats.safetensors').brain"), golden_tensor(DType::bf16, {2, 2, 2})));
    CHECK(run("local t, meta = load(data .. 'floats.safetensors'); save(dir .. 'a.safetensors', t, {metadata = meta})")
              .empty());
    CHECK(read_bytes(run.path("a.safetensors")) == read_bytes(golden("floats.safetensors")));
    CHECK(run("local t, meta = load(data .. 'integers.safetensors'); return next(meta)") == "nil");
    CHECK(run("os.rename(dir .. 'a.npy', dir .. 'b.NPY'); return load(dir .. 'b.NPY') ~= nil") == "true");
}

TEST_CASE("load and save carry tensors through archives of NumPy", "[files][lua]") {
    FileShell run;
    CHECK(same(run.tensor("return load(data .. 'deflated.npz').half"), golden_tensor(DType::f16, {3, 2})));
    CHECK(run("save(dir .. 'a.npz', load(data .. 'stored.npz'))").empty());
    CHECK(same(run.tensor("return load(dir .. 'a.npz')['layer/größe β']"), golden_tensor(DType::f64, {1})));
    CHECK(run("local n = 0; for _ in pairs(load(dir .. 'a.npz')) do n = n + 1 end; return n") == "7");
    CHECK(run("save(dir .. 'none.NPZ', {}); return next(load(dir .. 'none.NPZ'))") == "nil");
}

TEST_CASE("tables in one another are saved under joined names and come back", "[files][lua]") {
    FileShell run;
    run("A, b = tensor{{1, 2}, {3, 4}}, tensor{5, 6} P = {layers = {{w = A, b = b}, {w = A * 2}}, out = b}");
    for (const std::string extension : {"npz", "safetensors"}) {
        CAPTURE(extension);
        run("path = dir .. 'p." + extension + "'");
        CHECK(run("save(path, P)").empty());
        CHECK(run("local x, names = load(path), {} for name in pairs(x) do names[#names + 1] = name end "
                  "table.sort(names) return table.concat(names, ' ')") == "layers.1.b layers.1.w layers.2.w out");
        CHECK(run("return load(path)['layers.2.w'] == A * 2") == "true");
        CHECK(run("local x = load(path, {nested = true}) return #x.layers, x.layers[1].w == A, x.layers[1].b == b, "
                  "x.layers[2].w == A * 2, x.out == b") == "2 true true true true");
        CHECK(run("save(path, {{w = A}, {w = b}}) local x = load(path, {nested = true}) return x[1].w == A, x[2].w == "
                  "b") == "true true");
        CHECK(run("save(path, {a = A, ['a.b'] = A}) load(path, {nested = true})") ==
              "user:1: load: nested: \"a.b\" stands below the name of another tensor, expected nested = false");
        CHECK(run("load(path, {nestd = true})").find("user:1: load: unknown option \"nestd\"") == 0);
        CHECK(run("load(dir .. 'none." + extension + "', {nested = true})").find("none." + extension) !=
              std::string::npos);
        CHECK(run("save(path, {layers = {[-1] = A}})").find("got the key -1") != std::string::npos);
        CHECK(run("save(path, {layers = {{w = 1}}})") ==
              "user:1: save: \"layers.1.w\": expected a Tensor, got a number");
        CHECK(run("save(path, {layers = {{}}})") ==
              "user:1: save: \"layers.1\": an empty table, expected one with a Tensor");
        CHECK(run("save(path, {a = {b = A}, ['a.b'] = A})") ==
              "user:1: save: two tensors would be named \"a.b\", expected names that stay apart");
        CHECK(run("local t = {} t.t = t save(path, t)") ==
              "user:1: save: tables are nested deeper than 100, or one contains itself");
    }
}

TEST_CASE("load says of a folder how results of a sweep are had", "[files][lua]") {
    FileShell run;
    run("mkpath(dir .. 'plain') sweep{grid = {N = {1, 2}}, run = function(p) return {y = p.N} end, save = dir .. "
        "'runs'}");
    CHECK(run("load(dir .. 'plain')").find("plain\" is a folder, expected a file with the extension .npy") !=
          std::string::npos);
    for (const char* path : {"dir .. 'runs'", "dir .. 'runs/'"}) {
        const std::string said = run(std::string("load(") + path + ")");
        CAPTURE(said);
        CHECK(said.find("runs is the folder of a sweep, expected a file: load(\"") != std::string::npos);
        CHECK(said.find("runs/runs.csv\") gives its rows as a list") != std::string::npos);
    }
    CHECK(run("return #load(dir .. 'runs/runs.csv')") == "2");
}

TEST_CASE("an optimiser is refused with what of it can be saved", "[files][lua]") {
    FileShell run;
    for (const std::string extension : {"json", "npz", "safetensors", "csv"})
        CHECK(
            run("save(dir .. 'o." + extension + "', adam{{w = zeros(2)}})") ==
            "user:1: save: value: an optimiser, expected its parameters: save(\"params.safetensors\", opt.params); its "
            "moments are kept in no file (?save)");
    CHECK(run("p = {layers = {{w = ones(2)}}} opt = adam{p} save(dir .. 'p.npz', opt.params) "
              "again = adam{load(dir .. 'p.npz', {nested = true})} return again.params.layers[1].w == ones(2)") ==
          "true");
}

TEST_CASE("what no Tensor can hold is left out with a note", "[files][lua]") {
    FileShell run;
    const std::string header =
        "{\"a\":{\"dtype\":\"F8\",\"shape\":[1],\"data_offsets\":[0,1]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]},"
        "\"c\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[5,6]}}";
    write_bytes(run.path("a.safetensors"),
                static_cast<char>(header.size()) + std::string(7, '\0') + header + std::string(6, '\0'));
    run("notes = {} causeway._note = function(text) notes[#notes + 1] = text end");
    CHECK(run("t = load(dir .. 'a.safetensors') return t.a, size(t.b, 1), t.c, #notes") == "nil 1 nil 1");
    const std::string types = "expected BOOL, I8 to I64, U8 to U64, F16, BF16, F32 or F64";
    CHECK(run("return notes[1]") == "left out of " + run.path("a.safetensors") +
                                        ":\ntensor \"a\": has elements of type \"F8\", " + types +
                                        "\ntensor \"c\": has elements of type \"F4\", " + types);
    CHECK(run("load(data .. 'stored.npz') return #notes") == "1");
}

TEST_CASE("a .csv file of numbers alone is a Tensor where it is asked for, and noted where it is not", "[files][lua]") {
    FileShell run;
    write_bytes(run.path("plain.csv"), "0.5,1\n-2,\n3,4e2\n");
    write_bytes(run.path("mixed.csv"), "1,2\n3,OOM\n");
    run("notes = {} causeway._note = function(text) notes[#notes + 1] = text end");
    CHECK(run("A = load(dir .. 'plain.csv', {header = false}) return size(A, 1), size(A, 2), A(2, 1), A(2, 2), A(3, "
              "2)") == "3 2 -2.0 nan 400.0");
    CHECK(run("return #notes") == "0");
    CHECK(run("return #load(dir .. 'plain.csv'), #notes") == "2 1");
    CHECK(run("return #load(dir .. 'plain.csv', {header = true}), #notes, notes[1]") ==
          "2 2 " + run.path("plain.csv") +
              ": its first line holds numbers alone, and was taken for the names of the columns; load(path, {header = "
              "false}) gives a Tensor of all lines");
    CHECK(run("load(dir .. 'mixed.csv', {header = false})") ==
          "user:1: " + run.path("mixed.csv") +
              ": row 2, column 2 is no number, expected numbers alone where header = false");
}

TEST_CASE("a .csv file with semicolons or tabs is read by them, and numbers with commas are noted", "[files][lua]") {
    FileShell run;
    run("notes = {} causeway._note = function(text) notes[#notes + 1] = text end");
    write_bytes(run.path("semicolons.csv"), "N;time\n128;0.5\n256;0.75\n");
    write_bytes(run.path("tabs.csv"), "N\ttime\n128\t0.5\n256\t0.75\n");
    for (const std::string name : {"semicolons", "tabs"}) {
        CAPTURE(name);
        CHECK(run("r, names = load(dir .. '" + name + ".csv') return #r, #names, r[2].N, r[2].time, #notes") ==
              "2 2 256 0.75 0");
    }
    write_bytes(run.path("plain.csv"), "1;2\n3;4\n");
    CHECK(
        run("return tostring(load(dir .. 'plain.csv', {header = false}) == tensor({{1, 2}, {3, 4}}, 'f64')), #notes") ==
        "true 0");
    CHECK(run("load(dir .. 'plain.csv') return #notes, notes[1]").find("holds numbers alone") != std::string::npos);
    write_bytes(run.path("commas.csv"), "N;time\n128;0,5\n256;-1,25\n");
    CHECK(run("notes = {} r = load(dir .. 'commas.csv') return r[1].time, #notes, notes[1]") ==
          "0,5 1 " + run.path("commas.csv") +
              ": 0,5 in row 1, column \"time\", is a text, as are others like it: a number has a point, as 0.5");
    write_bytes(run.path("texts.csv"), "N;note\n1;a,b\n2;,5\n3;1,2,3\n4;5,\n");
    CHECK(run("notes = {} return load(dir .. 'texts.csv')[3].note, #notes") == "1,2,3 0");
}

TEST_CASE("what a file gives is shown by print, and ~ is the home folder", "[files][lua]") {
    FileShell run;
    run("save(dir .. 'x.csv', {{N = 1, t = 0.5}}) save(dir .. 'x.npz', {a = ones(2)})");
    CHECK(run("return load(dir .. 'x.csv')") == "{{N = 1, t = 0.5}} {\"N\", \"t\"}");
    CHECK(run("return load(dir .. 'x.npz')") == "{a = 2-element Tensor{Float32} [1, 1]}");
    const auto output = run_program({"-e", "save('~/a.npy', ones(3)); print(load('~/a.npy') == ones(3))"});
    CHECK(output.out == "true\n");
    CHECK(output.err == "");
}

TEST_CASE("a file of PyTorch is refused with what converts it", "[files][lua]") {
    FileShell run;
    const std::string pickle = "\x80\x02}q", zip = "PK\x03\x04";
    const auto refused = [&](const std::string& name, const std::string& bytes) {
        write_bytes(run.path(name), bytes);
        return run("return load(dir .. \"" + name + "\")");
    };
    const std::string folder = run.path("");
    CHECK(refused("w.pt", zip) ==
          "user:1: " + folder +
              "w.pt: is a file of PyTorch, which only Python can open; convert it there: import torch; from "
              "safetensors.torch import save_file; save_file({k: v.contiguous().clone() for k, v in torch.load('" +
              folder + "w.pt', map_location='cpu', weights_only=True).items() if torch.is_tensor(v)}, '" + folder +
              "w.safetensors')");
    for (const char* name : {"w.pth", "w.bin", "w.ckpt"}) {
        INFO(name);
        CHECK(refused(name, zip).find("is a file of PyTorch") != std::string::npos);
        CHECK(refused(name, pickle).find("is a file of PyTorch") != std::string::npos);
    }
    CHECK(refused("w.bin", "some bytes")
              .ends_with("its extension is \".bin\", expected .npy, .npz, .safetensors, .csv "
                         "or .json"));
    CHECK(refused("w.bin", "").find("its extension is") != std::string::npos);
    CHECK(refused("it's.pt", zip).find("torch.load('" + folder + "it\\'s.pt'") != std::string::npos);
}

TEST_CASE("load stays Lua's own for code", "[files][lua]") {
    FileShell run;
    CHECK(run("return load('return 1 + 1')()") == "2");
    CHECK(run("return load('return ...', 'name', 't', {})(5)") == "5");
    CHECK(run("return load('return x', '=c', 't', {x = 7})()") == "7");
    CHECK(run("local parts = {'return ', '42'}; return load(function() return table.remove(parts, 1) end)()") == "42");
    CHECK(run("return load('syntax error here')") == "nil [string \"syntax error here\"]:1: syntax error near 'error'");
    CHECK(run("return load('x =', '=chunk.csv')") == "nil chunk.csv:1: unexpected symbol near <eof>");
    CHECK(run("local t = {csv = 3}; return load('return ({csv = 3}).csv')()") == "3");
    CHECK(run("t = {json = 4}; return load('return t.json')()") == "4");
    CHECK(run("return load('return 5 -- x\\n --.csv')()") == "5");
    CHECK(run("return load('')()").empty());
    CHECK(run("return _G.load == load, causeway.load == load, select('#', load('return'))") == "true true 1");
    CHECK(run("return load('data.pt')") ==
          "user:1: load: \"data.pt\" is neither a file nor Lua code, expected a file with the extension .npy, "
          ".npz, .safetensors, .csv or .json");
    CHECK(run("return load('no-such/file')").find("load: \"no-such/file\" is neither") != std::string::npos);
    CHECK(run("return load('do')") == "nil [string \"do\"]:1: 'end' expected near <eof>");
    CHECK(run("return load('if x.y then')") == "nil [string \"if x.y then\"]:1: 'end' expected near <eof>");
    CHECK(run("return load(42)") == "nil [string \"42\"]:1: unexpected symbol near '42'");
    CHECK(run("return load()") == "user:1: load: path: expected the path of a file, or Lua code, got nothing");
    CHECK(run("return load{}") == "user:1: load: path: expected the path of a file, or Lua code, got a table");
    CHECK(run("return load('no such file')") == "nil [string \"no such file\"]:1: syntax error near 'such'");
}

TEST_CASE("bytecode is loaded only where it is asked for", "[files][lua]") {
    FileShell run;
    run("code = string.dump(function() return 42 end) local f = io.open(dir .. 'c.lua', 'wb') f:write(code) f:close() "
        "f = io.open(dir .. 't.lua', 'w') f:write('return ...') f:close()");
    const std::string refused = "attempt to load a binary chunk (mode is 't')";
    CHECK(run("return load(code)") == "nil " + refused);
    CHECK(run("return load(code, 'name')") == "nil " + refused);
    CHECK(run("return load(code, nil, nil, {})") == "nil " + refused);
    CHECK(run("local parts = {code}; return load(function() return table.remove(parts) end)") == "nil " + refused);
    CHECK(run("return loadfile(dir .. 'c.lua')") == "nil " + refused);
    CHECK(run("return loadfile(dir .. 'c.lua', nil, {})") == "nil " + refused);
    CHECK(run("dofile(dir .. 'c.lua')") == refused);
    CHECK(run("package.path = dir .. '?.lua' return require('c')").find(refused) != std::string::npos);
    CHECK(run("return load(code, 'name', 'b')(), load(code, 'name', 'bt')(), loadfile(dir .. 'c.lua', 'b')()") ==
          "42 42 42");
    CHECK(run("return loadfile(dir .. 't.lua')(5), loadfile(dir .. 't.lua', 't', {})(6), dofile(dir .. 't.lua')") ==
          "5 6");
    CHECK(run("return require('t')") == "t " + run.path("t.lua"));
    CHECK(
        run("x = 4 return load('return x', nil, nil, {x = 3})(), pcall(load('return x', 'n', 't', nil))").find("3 f") ==
        0);
}

TEST_CASE("names that stand twice and numbers have one rule in all formats", "[files][lua]") {
    FileShell run;
    write_bytes(run.path("a.json"), "[{\"a\": 1,\n \"b\": {\"a\": 2}}, {\"a\": null, \"a\": 1}]");
    CHECK(run("return load(dir .. 'a.json')") ==
          "user:1: " + run.path("a.json") + ": has the name \"a\" twice in one object");
    CHECK(run("return json_decode('{\"x\": 1, \"y\": 2, \"x\": 1}')") ==
          "user:1: json_decode: text: has the name \"x\" twice in one object");
    CHECK(run("return json_decode('[{\"x\": 1}, {\"x\": {\"x\": null}}]')[2].x.x") == "nil");
    write_bytes(run.path("b.json"), "[1,\n -1e999]");
    CHECK(run("return load(dir .. 'b.json')") ==
          "user:1: " + run.path("b.json") + ": line 2: the number -1e999 is beyond Float64");
    write_bytes(run.path("b.csv"), "x\n1e999\n");
    CHECK(run("return load(dir .. 'b.csv')") == "user:1: " + run.path("b.csv") +
                                                    ": line 2, column \"x\": the number 1e999 is beyond Float64; as "
                                                    "text it would stand in quotes");
    CHECK(run("save(dir .. 'c.csv', {{x = '1e999'}}) return load(dir .. 'c.csv')[1].x .. '!'") == "1e999!");
    CHECK(run("text_table({{x = '1e999'}}):save(dir .. 'd.csv') return load(dir .. 'd.csv')[1].x .. '!'") == "1e999!");
    write_bytes(run.path("e.csv"), "x,y,z\n-0,1e-999,18446744073709551616\n");
    CHECK(run("local r = load(dir .. 'e.csv')[1] return r.x, r.y, r.z") == "-0.0 0.0 1.844674407371e+19");
    CHECK(run("local r = json_decode('[-0, 1e-999, 18446744073709551616, 0, -1]') return r[1], r[2], r[3], r[4], "
              "r[5]") == "-0.0 0.0 1.844674407371e+19 0 -1");
}

TEST_CASE("a table of results survives .csv", "[files][lua]") {
    FileShell run;
    run("rows = {{N = 128, method = 'fleet', time = 3.7e-7, ok = true}, {N = 256, method = 'a,\"b\"\\n', time = 'OOM', "
        "ok = false},"
        " {N = 3.0, method = '17', time = 0/0}, {N = -1/0, method = ''}}; save(dir .. 'r.csv', rows)");
    CHECK(read_bytes(run.path("r.csv")) ==
          "N,method,ok,time\n128,fleet,true,3.7e-07\n256,\"a,\"\"b\"\"\n\",false,OOM\n3.0,\"17\",,NaN\n-Inf,\"\",,\n");
    CHECK(run("r, columns = load(dir .. 'r.csv'); return #r, table.concat(columns, ' ')") == "4 N method ok time");
    CHECK(
        run("for i = 1, 4 do for _, c in ipairs(columns) do local a, b = rows[i][c], r[i][c]"
            " assert((a == b or a ~= a and b ~= b) and math.type(a) == math.type(b), i .. c) end end return 'same'") ==
        "same");

    CHECK(run("save(dir .. 'c.csv', rows, {columns = {'time', 'N', 'note'}})").empty());
    CHECK(run("save(dir .. 'd.csv', rows, {columns = {'tiem'}})").find("save: columns: no row has \"tiem\"") !=
          std::string::npos);
    CHECK(read_bytes(run.path("c.csv")) == "time,N,note\n3.7e-07,128,\nOOM,256,\nNaN,3.0,\n,-Inf,\n");
    CHECK(run("save(dir .. 'e.csv', {}, {columns = {'a'}}); local r, c = load(dir .. 'e.csv'); return #r, c[1]") ==
          "0 a");
}

TEST_CASE("Lua values survive .json", "[files][lua]") {
    FileShell run;
    CHECK(run("save(dir .. 'v.json', {rows = {{N = 128, t = 'OOM'}, {N = 256, t = 0.5}}, seed = 7, empty = {}, note = "
              "'größe \"x\"\\n'})")
              .empty());
    CHECK(read_bytes(run.path("v.json")) ==
          "{\n  \"empty\": [],\n  \"note\": \"größe \\\"x\\\"\\n\",\n  \"rows\": [\n    {\"N\": 128, \"t\": "
          "\"OOM\"},\n    {\"N\": 256, \"t\": 0.5}\n  ],\n  \"seed\": 7\n}\n");
    CHECK(run("local v = load(dir .. 'v.json'); return v.rows[2].t, v.rows[1].t, v.seed, v.note, #v.empty") ==
          "0.5 OOM 7 größe \"x\"\n 0");
    CHECK(run("save(dir .. 't.json', {A = load(data .. 'f4_2x3.npy')})").empty());
    CHECK(read_bytes(run.path("t.json")) == "{\n  \"A\": [\n    [-1.5, 0.25, -1.25],\n    [0.5, -1.0, 0.75]\n  ]\n}\n");

    CHECK(run("return json_encode({1, 2.0, 'x', true, {a = {}}, json_null})") ==
          R"([1, 2.0, "x", true, {"a": []}, null])");
    CHECK(run("return json_encode(5), json_encode('a'), json_encode(false), json_encode({})") == "5 \"a\" false []");
    CHECK(run("return json_encode({0/0, 1/0, -1/0, -0.0, 1e300, math.mininteger})") ==
          R"([{"$numberDouble": "NaN"}, {"$numberDouble": "Infinity"}, {"$numberDouble": "-Infinity"}, )"
          R"(-0.0, 1e+300, -9223372036854775808])");
    CHECK(run("local v = json_decode(json_encode({0/0, 1/0, -1/0, -0.0})); return v[1] ~= v[1], v[2], v[3], v[4]") ==
          "true inf -inf -0.0");
    CHECK(
        run("local v = json_decode(json_encode({a = {x = 1/0, y = tensor{1, 1/0}}})).a; return v.x, v.y[1], v.y[2]") ==
        "inf 1.0 inf");
    // Texts that look like numbers stay texts, and only the exact object is a number.
    CHECK(run("local v = json_decode(json_encode({'NaN', 'Inf', '-Inf', 'Infinity'})); return v[1], v[2], v[3], v[4], "
              "type(v[2])") == "NaN Inf -Inf Infinity string");
    CHECK(run(R"(local v = json_decode('[{"$numberDouble": "NaN", "x": 1}, {"$numberDouble": "1.5"}, )"
              R"({"$numberDouble": 1}]') )"
              R"(return v[1].x, v[2]["$numberDouble"], v[3]["$numberDouble"])") == "1 1.5 1");
    CHECK(run(R"(return json_decode('{"$numberDouble": "-Infinity"}'))") == "-inf");
    CHECK(run("local v = json_decode('[3, 3.0, 9223372036854775807, 9223372036854775808]'); return math.type(v[1]), "
              "math.type(v[2]), v[3], math.type(v[4])") == "integer float 9223372036854775807 float");
    CHECK(run("local v = json_decode('{\"a\": null, \"b\": [1, null, 3]}'); return v.a, v.b[2], v.b[2] == json_null, "
              "#v.b") == "nil null true 3");
    CHECK(run("return json_decode(' \"\\\\u00e9\\\\ud83d\\\\ude00\" ')") == "é😀");
    CHECK(contains(run("return json_encode({['a\\xFF'] = 1})"), "a table has the name \"a\\xFF\", expected UTF-8"));
    CHECK(run("return json_encode('a\\xFFb'), json_encode('a\\0b')") ==
          "\"a\xEF\xBF\xBD"
          "b\" \"a\\u0000b\"");
    CHECK(run("return json_encode(load(data .. 'f4_0d.npy')), json_encode(load(data .. 'f4_0x3.npy')), "
              "json_encode(load(data .. 'i1_5.npy'))") == "-1.5 [] [-6.0, 1.0, -5.0, 2.0, -4.0]");
}

TEST_CASE("load says in one sentence what is wrong with a file", "[files][lua]") {
    FileShell run;
    const auto fault = [&](const std::string& name) { return run("return load(dir .. '" + name + "')"); };
    const auto expected = [&](const std::string& name, const std::string& message) {
        return "user:1: " + run.path(name) + ": " + message;
    };
    CHECK(fault("none.npy") == expected("none.npy", "cannot be read: No such file or directory"));
    for (const char* name : {"e.npy", "e.safetensors", "e.json"}) {
        write_bytes(run.path(name), "");
        CHECK(fault(name) == expected(name, "the file is empty"));
    }
    write_bytes(run.path("e.csv"), "");
    CHECK(fault("e.csv") == expected("e.csv", "the file is empty, expected a line with the names of the columns"));
    ::mkdir(run.path("d.npy").c_str(), 0700);
    CHECK(fault("d.npy") == expected("d.npy", "is a directory, expected a regular file"));
    REQUIRE(::mkfifo(run.path("p.csv").c_str(), 0600) == 0);
    CHECK(fault("p.csv") == expected("p.csv", "is a pipe, expected a regular file"));
    write_bytes(run.path("x.npz"), "PK");
    CHECK(fault("x.npz") == expected("x.npz", "is cut off or not a zip archive: the record that ends one is missing"));
    write_bytes(run.path("x.zip"), "PK");
    CHECK(fault("x.zip") == expected("x.zip",
                                     "cannot be loaded: its extension is \".zip\", expected .npy, .npz, "
                                     ".safetensors, .csv or .json"));
    write_bytes(run.path("r.csv"), "a,b\n1\n");
    CHECK(fault("r.csv") == expected("r.csv", "line 2 has 1 cell, expected 2 as in the first line"));
    write_bytes(run.path("b.json"), "{\"a\": [1,\n 2}");
    CHECK(fault("b.json") == expected("b.json", "is not valid JSON at byte 13 (line 2)"));
    write_bytes(run.path("r.safetensors"), std::string(10240, '\x5A'));
    CHECK(fault("r.safetensors") == expected("r.safetensors",
                                             "is cut off or not a .safetensors file: it says that its header has "
                                             "6510615555426900570 bytes, but only 10232 follow"));
    CHECK(run("load(data .. 'f4_2x3.npy', {x = 1})") ==
          "user:1: load: a .npy file takes no second argument, got a table");
}

TEST_CASE("save says in one sentence what it cannot write", "[files][lua]") {
    FileShell run;
    run("A = load(data .. 'f4_2x3.npy'); B = load(data .. 'floats.safetensors').brain");
    const auto fault = [&](const std::string& arguments) { return run("save(" + arguments + ")"); };
    const std::string at = "user:1: ";
    CHECK(fault("") == at + "save: path: expected a string, got nothing");
    CHECK(fault("A") == at + "save: path: expected a string, got a Tensor");
    CHECK(fault("dir .. 'a.npy'") == at + "save: value: expected what to save, got nothing");
    CHECK(fault("'a.npyy', A") == at + "save: \"a.npyy\" has the extension \".npyy\", expected .npy, .npz, "
                                       ".safetensors, .csv or .json (did you mean \".npy\"?)");
    CHECK(fault("'a.b/c', A") == at + "save: \"a.b/c\" has no extension, expected .npy, .npz, .safetensors, .csv or "
                                      ".json");
    CHECK(fault("dir .. 'none/a.npy', A") ==
          at + run.path("none/a.npy") + ": cannot be written: No such file or directory");
    CHECK(fault("dir .. 'a.npy', {A}") ==
          at + "save: a .npy file holds one Tensor, got a table (a .npz or .safetensors file holds a table of them)");
    CHECK(fault("dir .. 'a.npy', 3") == at + "save: a .npy file holds one Tensor, got a number");
    CHECK(fault("dir .. 'a.npy', A, {columns = {}}").starts_with(at + "save: unknown option \"columns\""));
    CHECK(fault("dir .. 'a.npy', B") ==
          at + run.path("a.npy") +
              ": the .npy format has no BFloat16, expected another element type, as of f32(A), or a .safetensors file");
    CHECK(fault("dir .. 'a.npz', A") == at +
                                            "save: a .npz file holds a table of name = Tensor, got a Tensor (give it a "
                                            "name, as in {A = A}, or save it as .npy)");
    CHECK(fault("dir .. 'a.npz', 3") == at + "save: a .npz file holds a table of name = Tensor, got a number");
    CHECK(fault("dir .. 'a.npz', {['../A'] = A}") == at + run.path("a.npz") +
                                                         ": the name \"../A.npy\" leads out of its "
                                                         "folder, expected the name of a tensor");
    CHECK(fault("dir .. 'a.npz', {A = A}, {metadata = {}}").starts_with(at + "save: unknown option \"metadata\""));
    CHECK(fault("dir .. 'a.safetensors', A") == at + "save: a .safetensors file holds a table of name = Tensor, got a "
                                                     "Tensor (give it a name, as in {A = A}, or save it as .npy)");
    CHECK(fault("dir .. 'a.safetensors', {A}") ==
          at + "save: a .safetensors file holds a table of name = Tensor, got the key 1");
    CHECK(fault("dir .. 'a.safetensors', {a = 1}") == at + "save: \"a\": expected a Tensor, got a number");
    CHECK(fault("dir .. 'a.safetensors', {a = A}, {metadata = {x = 1}}") ==
          at + "save: metadata: \"x\": expected text, got a number");
    CHECK(fault("dir .. 'a.safetensors', {a = A}, {meta = {}}") ==
          at + "save: unknown option \"meta\" (did you mean \"metadata\"?)");
    CHECK(fault("dir .. 'a.safetensors', {['a\\xFF'] = A}") ==
          at + run.path("a.safetensors") + ": the names of tensors and the metadata must be UTF-8");
    CHECK(fault("dir .. 'a.csv', A") ==
          at + "save: a .csv file holds a table of rows, as {{N = 1, time = 2}, ...}, got a "
               "Tensor (a .npy file holds one)");
    CHECK(fault("dir .. 'a.csv', {}") == at + "save: a .csv file has at least one column, got none");
    CHECK(fault("dir .. 'a.csv', {x = {1, 2}}") ==
          at + "save: a .csv file holds an array of rows, each a table of column = value, got the key x");
    CHECK(fault("dir .. 'a.csv', {{a = 1}, 5}") ==
          at + "save: row 2: expected a table of column = value, got a number");
    CHECK(fault("dir .. 'a.csv', {{1, 2}}") == at + "save: row 1: expected a table of column = value, got the key 1");
    CHECK(fault("dir .. 'a.csv', {{a = 1}, {a = {}}}") ==
          at + "save: row 2, column \"a\": expected a number, a string or a boolean, got a table");
    CHECK(fault("dir .. 'a.csv', {{a = 1}}, {columns = {'a', 'a'}}") == at + "save: columns: \"a\" is there twice");
    CHECK(fault("dir .. 'a.csv', {{a = 1}}, {columns = 'a'}") ==
          at + "save: columns: expected an array of names, got a string");
    CHECK(fault("dir .. 'a.json', {rows = {{f = print}}}") ==
          at + run.path("a.json") +
              ": value.rows[1].f: expected a table, a Tensor, a string, a number or a boolean, got a function");
    CHECK(run("return json_encode({1, 2, x = 3})") ==
          at + "json_encode: value: a table has both positions and names (\"x\"), expected one of them");
    CHECK(run("return json_encode({1, nil, 3, [7] = 1})") ==
          at + "json_encode: value: an array of 3 values goes to position 7, expected no holes");
    CHECK(run("return json_encode({[1.5] = 1})") ==
          at + "json_encode: value: a table has the key 1.5, expected names or positions from 1 on");
    CHECK(run("local t = {a = {}}; t.a.b = t; return json_encode(t)") ==
          at + "json_encode: value.a.b: the table contains itself");
    CHECK(run("local t = {}; for i = 1, 300 do t = {t} end; return json_encode(t)") ==
          at + "json_encode: tables are nested deeper than 200");
    CHECK(run("return json_encode()") == at + "json_encode: value: expected a value, got nothing");
    CHECK(run("return json_decode(('['):rep(100000))") == at + "json_decode: text: is nested deeper than 200");
    CHECK(run("return json_decode('[1] x')") == at + "json_decode: text: is not valid JSON at byte 5 (line 1)");
    CHECK(run("return json_decode('[\"\\xFF\"]')") == at + "json_decode: text: is not valid JSON at byte 3 (line 1)");
    CHECK(run("return json_decode('1\\0')") == at + "json_decode: text: is not valid JSON at byte 2 (line 1)");
    CHECK(run("return json_decode('')").starts_with(at + "json_decode: text: is not valid JSON"));
    CHECK(run("return json_decode(5)") == at + "json_decode: text: expected a string, got a number");
    CHECK(!std::ifstream(run.path("a.csv")));
    CHECK(!std::ifstream(run.path("a.json")));
}

TEST_CASE("a table is nested as deep as is allowed", "[files][lua]") {
    FileShell run;
    CHECK(run("local t = {}; for i = 1, 199 do t = {t} end; local s = json_encode(t); return #s, "
              "json_encode(json_decode(s)) == s") == "400 true");
}
