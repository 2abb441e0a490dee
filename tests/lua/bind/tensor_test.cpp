// Tensors as a person types them: values, texts of errors, memory, and arguments of every wrong kind.
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>

#include "core/base/parallel.hpp"
#include "lua/bind/bind.hpp"
#include "lua/shell/state.hpp"
#include "tests/catch.hpp"
#include "tests/lua/program.hpp"

using namespace causeway;
using causeway::testing::contains;

namespace {

class Shell {
public:
    Shell() : state_(lua::new_state(), lua_close) {}

    // What `return CODE` or CODE gives, as text; an error as its message.
    std::string operator()(const std::string& code) {
        lua_State* L = state_.get();
        lua_settop(L, 0);
        if (luaL_loadstring(L, ("return " + code).c_str()) != LUA_OK) {
            lua_settop(L, 0);
            if (luaL_loadstring(L, code.c_str()) != LUA_OK) return lua_tostring(L, -1);
        }
        const int status = lua_pcall(L, 0, LUA_MULTRET, 0);
        std::string out;
        for (int i = 1; i <= lua_gettop(L); ++i) {
            if (i > 1) out += " ";
            out += luaL_tolstring(L, i, nullptr);
            lua_pop(L, 1);
        }
        if (status == LUA_OK) return out;
        const std::size_t position = out.find("]:1: ");  // the position in front
        return position == std::string::npos ? out : out.substr(position + 5);
    }

private:
    std::unique_ptr<lua_State, void (*)(lua_State*)> state_;
};

// A function that flattens a tensor into one line: "2x2: 1 2 3 4".
const char* flat = R"(function flat(A)
  local out = {}
  for _, v in ipairs(A:reshape(#A):totable()) do out[#out + 1] = string.format("%g", v) end
  return table.concat({A:size()}, "x") .. ": " .. table.concat(out, " ")
end)";

}  // namespace

TEST_CASE("tensors are made from dimensions, tables and types", "[lua][tensor]") {
    Shell lua;
    lua(flat);
    CHECK(lua("flat(zeros(2, 3))") == "2x3: 0 0 0 0 0 0");
    CHECK(lua("flat(ones({1, 2}))") == "1x2: 1 1");
    CHECK(lua("flat(fill(2.5, 3))") == "3: 2.5 2.5 2.5");
    CHECK(lua("flat(fill(zeros(2), 4))") == "2: 4 4");
    CHECK(lua("flat(tensor{{1, 2}, {3, 4}})") == "2x2: 1 2 3 4");
    CHECK(lua("flat(tensor{{{{1}, {2}}}})") == "1x1x2x1: 1 2");
    CHECK(lua("size(tensor{})") == "0");
    CHECK(lua("size(tensor{{}, {}})") == "2 0");
    CHECK(lua("flat(range(1, 4))") == "4: 1 2 3 4");
    CHECK(lua("#range(0, 1, {step = 0.1}), range(0, 1, {step = 0.1})(11)") == "11 1.0");
    CHECK(lua("flat(range(5, 1, {step = -2}))") == "3: 5 3 1");
    CHECK(lua("flat(range(0, 1, {length = 5}))") == "5: 0 0.25 0.5 0.75 1");
    CHECK(lua("flat(range(1, 0, {length = 2}))") == "2: 1 0");
    CHECK(lua("flat(range(3, 7, {length = 1}))") == "1: 3");
    CHECK(lua("#range(3, 7, {length = 0})") == "0");
    CHECK(lua("range(0, 0.7, {length = 8, dtype = 'f64'})(8) == 0.7") == "true");
    CHECK(lua("#range(2, 1)") == "0");
    for (const char* call : {"zeros(2, 3, \"Float64\")", "zeros(2, 3, \"f64\")", "zeros(2, 3, {dtype = \"f64\"})",
                             "zeros({2, 3}, \"f64\")", "zeros{2, 3, dtype = \"f64\"}", "tensor({1, 2}, \"float64\")",
                             "tensor{1, 2, dtype = \"f64\"}", "range(1, 2, \"f64\")",
                             "range(1, 2, {step = 1}, \"f64\")", "range(1, 2, {dtype = \"f64\"})",
                             "range(1, 2, nil, \"f64\")", "randperm(3, \"f64\")", "similar(zeros(2), \"f64\")",
                             "fill(1, 2, \"f64\")", "f64(zeros(2))", "zeros(2):f64()", "tensor(zeros(2), \"f64\")"}) {
        CAPTURE(call);
        CHECK(lua(std::string("eltype(") + call + ")") == "Float64");
    }
    CHECK(lua("eltype(bf16(zeros(2))), eltype(f16(zeros(2))), eltype(zeros(2))") == "BFloat16 Float16 Float32");
    CHECK(lua("size(similar(zeros(2, 3), 4)), eltype(similar(f16(zeros(2)), 4))") == "4 Float16");
    CHECK(lua("f32(0.1) == 0.1, f64(0.1) == 0.1, bf16(1.001)") == "false true 1.0");
    CHECK(lua("flat(tensor(tensor{{1, 2}}:totable()))") == "1x2: 1 2");
    CHECK(lua("local A = zeros(2) local B = A:copy() B:set(1, 1) return A(1), B(1)") == "0.0 1.0");
    CHECK(lua("local A = zeros(4) local B = A:reshape(2, 2) B:set(1, 1, 1) return A(1)") == "1.0");
}

TEST_CASE("elements and parts are read and written", "[lua][tensor]") {
    Shell lua;
    lua(flat);
    lua("A = range(1, 24):reshape(2, 3, 4)");
    CHECK(lua("A(2, 3, 4), A(1, 1, 2)") == "24.0 2.0");
    CHECK(lua("flat(A(2, 1))") == "4: 13 14 15 16");
    CHECK(lua("flat(A(1, ':', 2))") == "3: 2 6 10");
    CHECK(lua("flat(A({2, 2}, {1, 2}, 3))") == "1x2: 15 19");
    CHECK(lua("size(A(1))") == "3 4");
    CHECK(lua("A() == A, size(A({1, 0}))") == "true 0 3 4");
    CHECK(lua("flat(zeros(2, 3):set(5, 1, ':'):set(tensor{{7}, {8}}, ':', {2, 3}))") == "2x3: 5 7 7 0 8 8");
    CHECK(lua("flat(zeros(3):set({1, 2, 3}))") == "3: 1 2 3");
    CHECK(lua("#A, length(A), ndims(A), size(A, 2)") == "24 24 3 3");
    CHECK(lua("A(1, 9)") == "index 2: 9, expected 1 to 3");
    CHECK(lua("A(0)") == "index 1: 0, expected 1 to 2");
    CHECK(lua("A(-1)") == "index 1: -1, expected 1 to 2");
    CHECK(lua("A(1.5)") == "index 1: 1.5, expected a whole number");
    CHECK(lua("A({1, 5})") == "index 1: {1, 5}, expected a range from 1 to 2");
    CHECK(lua("A({1})") ==
          "index 1: expected a range {from, to}, got a table of 1 entry; places one by one are a list in a list: {{1, "
          "3, 5}}");
    CHECK(lua("A({2, 1, 3})").find("a list in a list: {{2, 1, 3}}") != std::string::npos);
    CHECK(lua("A(':', {3, 1})") ==
          "index 2: {3, 1}, expected a range from 1 to 3: backwards it is {range(3, 1, {step = -1})}");
    CHECK(lua("A('x')") == "index 1: expected a number, \":\" or {from, to}, got \"x\"");
    CHECK(lua("A(nil)") == "index 1: expected a number, \":\" or {from, to}, got nothing");
    CHECK(lua("A(1, 1, 1, 1)") == "a 2×3×4 Tensor{Float32} has 3 dimensions, got 4 indices");
    CHECK(lua("zeros(0)(1)") == "index 1: 1, but the dimension is empty");
    CHECK(lua("A:set(zeros(5), 1, 1)") == "set: value: shape 5 does not fit the part of shape 4");
    CHECK(lua("A:set('x', 1)") ==
          "set: value: expected a number or a Tensor, got \"x\"; the order is A:set(value, i, j)");
    CHECK(lua("A[1]") == "a Tensor is indexed as A(i, j), its first row as A(1, \":\"), not with [ ]");
    CHECK(lua("A[1] = 2") == "elements of a Tensor are written as A:set(value, i, j), not with =");
}

TEST_CASE("places one by one and masks are read and written", "[lua][tensor]") {
    Shell lua;
    lua(flat);
    lua("A = range(1, 12):reshape(3, 4)  p = tensor{3, 1, 3}");
    CHECK(lua("flat(A({{3, 1}}))") == "2x4: 9 10 11 12 1 2 3 4");
    CHECK(lua("A({p}) == cat(A({3, 3}), A({1, 1}), A({3, 3}), 1), A({{3, 1, 3}}, ':') == A({p})") == "true true");
    CHECK(lua("flat(A(':', {{4, 1}}))") == "3x2: 4 1 8 5 12 9");
    CHECK(lua("flat(A({{2, 1}}, {{1, 3}})), flat(A({{3}}, 2)), flat(A(2, {{4, 2}}))") == "2x2: 5 7 1 3 1: 10 2: 8 6");
    CHECK(lua("flat(A({2, 3}, {{2, 2}}))") == "2x2: 6 6 10 10");
    CHECK(lua("size(A({{}}))") == "0 4");
    CHECK(lua("flat(range(1, 3)({range(3, 1, {step = -1})}))") == "3: 3 2 1");
    CHECK(lua("flat(A({argmax(A, 1)}, 1))") == "4: 9 9 9 9");  // 1×4, as a reduction leaves it
    CHECK(lua("flat(A(gt(A, 9))), size(A(gt(A, 99)))") == "3: 10 11 12 0");
    CHECK(lua("flat(A(gt(sum(A, 2), 20))), flat(A(':', {{1}})(tensor{1, 0, 1}))") ==
          "2x4: 5 6 7 8 9 10 11 12 2x1: 1 9");
    CHECK(lua("flat(A(2, tensor{0, 1, 1, 0}))") == "2: 6 7");
    // Copies, of the type of the tensor.
    CHECK(lua("B = A({{1, 2, 3}})  B:set(0, 1, 1)  return A(1, 1), eltype(f16(A)({{1}})), eltype(f64(A)(gt(A, 3)))") ==
          "1.0 Float16 Float64");
    CHECK(lua("flat(zeros(2, 3):set(5, ':', {{3, 1}}))") == "2x3: 5 0 5 5 0 5");
    CHECK(lua("flat(zeros(2, 3):set({{1, 2}, {3, 4}}, ':', {{3, 1}}))") == "2x3: 2 0 1 4 0 3");
    CHECK(lua("flat(zeros(3):set({1, 2, 3}, {{2, 2, 1}}))") == "3: 3 2 0");  // the last of a place stays
    CHECK(lua("flat(zeros(2, 2):set(7, {{2}}, {{1}})), flat(zeros(2, 3):set(1, {{2}}, 2))") ==
          "2x2: 0 0 7 0 2x3: 0 0 0 0 1 0");
    CHECK(lua("B = A:copy()  return flat(B:set(0, gt(B, 2)))") == "3x4: 1 2 0 0 0 0 0 0 0 0 0 0");
    CHECK(lua("flat(tensor{-1, 2, -3}:set({5, 6}, lt(tensor{-1, 2, -3}, 0)))") == "3: 5 2 6");
    CHECK(lua("A:copy():set({1, 2}, gt(A, 2))") == "set: value: shape 2 does not fit the part of shape 10");
    // What is chosen is never guessed.
    CHECK(lua("A(p)") ==
          "index 1: a Tensor with 3 in it, expected a mask of 0 and 1, as gt(A, 0) gives it; places stand "
          "in a list: A({p})");
    CHECK(
        lua("A(tensor{1, 3})") ==
        "index 1: a 2-element Tensor{Float32}, expected a mask of 3 elements, 0 and 1; places stand in a list: A({p})");
    CHECK(lua("A(A / 0 - A / 0)").find("index 1: a Tensor with NaN in it") == 0);
    CHECK(lua("A({{1, 4}})") == "index 1: 4, expected 1 to 3");
    CHECK(lua("A({{0}})") == "index 1: 0, expected 1 to 3");
    CHECK(lua("A({{1.5}})") == "index 1: places: 1.5, expected whole numbers");
    CHECK(lua("A({{1 / 0}})") == "index 1: places: inf, expected whole numbers");
    CHECK(lua("A({A})") == "index 1: places: a 3×4 Tensor{Float32}, expected a vector or a list of whole numbers");
    CHECK(lua("A({{'x'}})") == "index 1: places: element [1]: expected a number, got a string");
    CHECK(lua("zeros(0)({{1}})") == "index 1: 1, but the dimension is empty");
}

TEST_CASE("operators", "[lua][tensor]") {
    Shell lua;
    lua(flat);
    lua("A = tensor{{1, 2}, {3, 4}}");
    CHECK(lua("flat(A + 1), flat(1 - A)") == "2x2: 2 3 4 5 2x2: 0 -1 -2 -3");
    CHECK(lua("flat(A * 2), flat(2 * A), flat(A / 2), flat(12 / A), flat(-A)") ==
          "2x2: 2 4 6 8 2x2: 2 4 6 8 2x2: 0.5 1 1.5 2 2x2: 12 6 4 3 2x2: -1 -2 -3 -4");
    CHECK(lua("flat(A * A), flat(times(A, A)), flat(A:t())") == "2x2: 7 10 15 22 2x2: 1 4 9 16 2x2: 1 3 2 4");
    CHECK(lua("flat(A + tensor{10, 20}), flat(A * tensor{1, 1})") == "2x2: 11 22 13 24 2: 3 7");
    CHECK(lua("A == A:copy(), A == A + 1, A == A:f64(), A == 1") == "true false false false");
    CHECK(lua("eltype(A * 0.1), eltype(A:f64() * 2), eltype(bf16(A) * 2)") == "Float32 Float64 Float32");
    CHECK(lua("flat(lt(A, 3)), flat(eq(A, A:t())), lt(1, 2)") == "2x2: 1 1 0 0 2x2: 1 0 0 1 true");
    CHECK(lua("A ^ 2") == "a Tensor has no operator ^: pow(A, x) is the power of each element");
    CHECK(lua("A < A") == "Tensors are compared element by element with lt(A, B), le(A, B), gt(A, B) and ge(A, B)");
    CHECK(lua("A + zeros(3)") ==
          "+: shapes 2×2 and 3 do not match: dimension 2 of the first is 2, dimension 1 of the second 3");
    CHECK(lua("A * zeros(3, 3)").find("*: shapes 2×2 and 3×3 do not fit") == 0);
    CHECK(lua("zeros(3) * zeros(3)").find("dot(A, B)") != std::string::npos);
    CHECK(lua("A + 'x'") == "+: expected a Tensor, got a string");
    CHECK(lua("A + nil") == "+: expected a Tensor, got nothing");
}

TEST_CASE("a list of numbers beside a tensor takes the type of the tensor", "[lua][tensor]") {
    Shell lua;
    for (const char* sum : {"A + {1, 2}", "{1, 2} - A", "times({1, 2}, A)", "A / {3, 7}", "A * {{1, 0}, {0, 1}}",
                            "{{1, 2}} * reshape(A, 2, 1)"}) {
        CAPTURE(sum);
        CHECK(lua("A = f32(ones(1, 2)) return (" + std::string(sum) + "):eltype()") == "Float32");
        CHECK(lua("A = f64(ones(1, 2)) return (" + std::string(sum) + "):eltype()") == "Float64");
    }
    CHECK(lua("return times({1, 2}, {3, 4}):eltype()") == "Float64");
}

TEST_CASE("functions work on tensors, as methods, on tables of numbers and on numbers", "[lua][tensor]") {
    Shell lua;
    lua(flat);
    lua("A = tensor{{1, 2}, {3, 4}}");
    CHECK(lua("sum(A), A:sum(), sum{1, 2, 3}, flat(sum(A, 1)), flat(A:sum(2))") == "10.0 10.0 6.0 1x2: 4 6 2x1: 3 7");
    CHECK(lua("prod(A), maximum(A), minimum(A), mean(A), median(A), std{1, 2, 3}") == "24.0 4.0 1.0 2.5 2.5 1.0");
    CHECK(lua("argmax(A), argmin(A), flat(argmax(A, 2))") == "4 1 2x1: 2 2");
    CHECK(lua("quantile(A, 0.5), flat(quantile(A, {0, 1})), flat(quantile(A, 0.5, 1))") == "2.5 2: 1 4 1x2: 2 3");
    CHECK(lua("flat(cumsum(A, 1)), flat(cumsum{1, 2, 3})") == "2x2: 1 2 4 6 3: 1 3 6");
    CHECK(lua("cumsum(A)") == "cumsum: dim: expected a number, got nothing");
    CHECK(lua("norm(tensor{3, 4}), opnorm(tensor{{3, 0}, {0, 4}}), dot(tensor{1, 2}, tensor{3, 4}), tr(A)") ==
          "5.0 4.0 11.0 5.0");
    CHECK(lua("any(A), all(A), any(lt(A, 0)), any(function(x) return x > 3 end, A), all(A, function(x) return x > 3 "
              "end)") == "true true false true false");
    CHECK(lua("flat(any(tensor{{0, 1}, {0, 0}}, 2)), flat(tensor{{0, 1}, {0, 0}}:any(1)), flat(all(tensor{{2, 0/0}, "
              "{0, 1}}, 2)), flat(all(A, 1))") == "2x1: 1 0 1x2: 0 1 2x1: 1 0 1x2: 1 1");
    CHECK(lua("flat(any(zeros(2, 0), 2)), flat(all(zeros(2, 0), 2))") == "2x1: 0 0 2x1: 1 1");
    CHECK(lua("size(reshape(zeros(2, 3, 4), -1, 6))") == "4 6");
    CHECK(lua("size(zeros(2, 3, 4):reshape{3, ':'}), size(reshape(A, -1)), size(reshape(zeros(0, 3), -1, 3))") ==
          "3 4 0 3");
    CHECK(lua("isnan(0/0), isfinite(1/0), abs(-2), abs(-2.5), sign(-3), sqrt(9), clamp(7, 0, 5), floor(2.5)") ==
          "true false 2 2.5 -1 3.0 5 2.0");
    CHECK(lua("where(true, 1, 0), where(0, 1, 2), flat(where(gt(A, 2), A, 0)), flat(where({1, 0}, 7, {8, 9}))") ==
          "1 2 2x2: 0 0 3 4 2: 7 9");
    // A causal mask: nothing comes of what is not taken.
    CHECK(lua("flat(where(lt({{1}, {2}}, {1, 2}), -math.huge, A))") == "2x2: 1 -inf 3 4");
    CHECK(lua("flat(where(eq(A, A), A, A * (0/0)))") == "2x2: 1 2 3 4");
    CHECK(lua("eltype(where({1, 0}, f16(A), 0)), eltype(where(A, 1, 0)), eltype(where({1, 0}, A, f64(A)))") ==
          "Float32 Float64 Float64");
    CHECK(lua("where(A)") ==
          "where: expected where(mask, a, b), a where the mask is not 0 and b elsewhere; of a vector, the places "
          "where it is 1 are range(1, #mask)(mask)");
    CHECK(lua("where(ones(2), 1, zeros(3))") == "where: shapes 2 and 3 do not match: dimension 1 is 2 and 3");
    CHECK(lua("where('x', 1, A)") == "where: mask: expected a Tensor, got a string");
    CHECK(lua("A:where(1, 2)") == "Tensor has no method \"where\" (it is a function here: where(mask, a, b))");
    CHECK(lua("A({1, 2, 2})") ==
          "index 1: expected a range {from, to}, got a table of 3 entries; places one by one are a list in a list: "
          "{{1, 2, 2}}");
    CHECK(lua("A({2, -1})") ==
          "index 1: {2, -1}, expected a range from 1 to 2: nothing is counted from the end, so it "
          "is {2, 2}");
    CHECK(lua("A[A]") ==
          "a Tensor is indexed as A(mask), the elements where the mask is 1, or A({p}), the places p, not with [ ]");
    CHECK(lua("A[{1, 3}]") ==
          "a Tensor is indexed as A({1, 3}), rows 1 to 3, or A({{1, 3, 5}}), these rows, not with [ ]");
    CHECK(lua("for i, v in ipairs(A) do end") ==
          "ipairs: a Tensor, expected a list, as in for i, x in "
          "ipairs(A:totable()) do");
    // An iterator of the user's is not ipairs.
    CHECK(lua("for x in function() return A[1] end do end") ==
          "a Tensor is indexed as A(i, j), its first row as A(1, \":\"), not with [ ]");
    CHECK(lua("pow({w = A}, 2)") == "pow: a table with the key \"w\", expected a Tensor: take p.w");
    CHECK(lua("eq(1, 1), lt(2, 1), ge(2, 2), times(2, 3)") == "true false true 6.0");
    CHECK(lua("flat(map(function(x) return x * x end, A)), flat(A:map(function(x, y) return x + y end, A))") ==
          "2x2: 1 4 9 16 2x2: 2 4 6 8");
    CHECK(lua("flat(cat(A, A, 1)), size(cat({A, A, A}, 2))") == "4x2: 1 2 3 4 1 2 3 4 2 6");
    CHECK(lua("flat(cat(A, {{5, 6}}, 1)), flat(cat({{{5}, {6}}, A}, 2))") == "3x2: 1 2 3 4 5 6 2x3: 5 1 2 6 3 4");
    CHECK(lua("cat({1, 2}, {3}, 1)") == "cat: argument 1: expected a Tensor, got a table");
    CHECK(lua("eltype(cat({1}, f64(ones(2)), 1))") == "Float64");
    CHECK(lua("flat(permutedims(tensor{1, 2})), size(permutedims(zeros(2, 3, 4), {3, 1, 2}))") == "1x2: 1 2 4 2 3");
    CHECK(lua("select('#', svd(A)), select('#', qr(A)), select('#', eigvals(A)), select('#', eigvals(A + A:t()))") ==
          "3 2 2 1");
    CHECK(lua("maximum(abs(inv(A) * A - tensor{{1, 0}, {0, 1}})) < 1e-5") == "true");
    CHECK(lua("flat(round(softmax(tensor{0, 0}) * 4)), flat(elu(tensor{1, 2})), flat(pow(tensor{1, 2}, 3)), "
              "flat(plus(1, tensor{2}))") == "2: 2 2 2: 1 2 2: 1 8 1: 3");
}

TEST_CASE("operations in place write into the tensor and return it", "[lua][tensor]") {
    Shell lua;
    lua(flat);
    lua("A = tensor{{1, 2}, {3, 4}}");
    CHECK(lua("flat(A:copy():add_(10)), flat(A:copy():add_(tensor{10, 20}, 0.5)), flat(A:copy():sub_(A, 2))") ==
          "2x2: 11 12 13 14 2x2: 6 12 8 14 2x2: -1 -2 -3 -4");
    CHECK(lua("flat(A:copy():times_(A)), flat(A:copy():div_(2)), flat(A:copy():pow_({2, 0}))") ==
          "2x2: 1 4 9 16 2x2: 0.5 1 1.5 2 2x2: 1 1 9 1");
    CHECK(lua("flat(A:copy():max_(2)), flat(A:copy():min_({1, 3})), flat(A:copy():clamp_(2, 3))") ==
          "2x2: 2 2 3 4 2x2: 1 2 1 3 2x2: 2 2 3 3");
    CHECK(lua("flat(A:copy():copy_({5, 6})), flat(A:copy():fill_(7)), "
              "flat(A:copy():neg_():abs_():sqrt_():pow_(2):round_())") == "2x2: 5 6 5 6 2x2: 7 7 7 7 2x2: 1 2 3 4");
    CHECK(lua("local B = A:copy() local C = B:add_(1) return rawequal(B, C), B(1, 1), A(1, 1)") == "true 2.0 1.0");
    CHECK(lua("local B = A:copy() local row = B:reshape(4) row:times_(2) return flat(B)") == "2x2: 2 4 6 8");
    CHECK(lua("local B = A:copy() local row = B(1) row:fill_(9) return flat(B)") == "2x2: 1 2 3 4");
    CHECK(lua("local B = A:copy() return flat(B:add_(B:t())), flat(B:sub_(B))") == "2x2: 2 5 5 8 2x2: 0 0 0 0");
    CHECK(lua("eltype(bf16(A):add_(f64(A))), flat(bf16(A):add_(f64(A)))") == "BFloat16 2x2: 2 4 6 8");
    for (const char* name : {"abs", "sign", "exp", "log", "sqrt", "sin", "cos", "tanh", "floor", "ceil", "round",
                             "relu", "elu", "sigmoid"}) {
        CAPTURE(name);
        CHECK(lua(std::string("A:copy():") + name + "_() == A:" + name + "()") == "true");
    }
    CHECK(lua("A:add_(zeros(2, 2, 2))") ==
          "add_: B: shape 2×2×2, expected one that repeats to the 2×2 of A, which keeps its shape");
    CHECK(lua("A:add_()") == "add_: B: expected a Tensor, got nothing");
    CHECK(lua("A:add_(1, 'x')") == "add_: factor: expected a number, got a string");
    CHECK(lua("A:exp_(1)") == "exp_: argument 2: a number, expected 1 argument");
    CHECK(lua("A:times_(1, 2)") == "times_: argument 3: a number, expected 2 arguments");
    CHECK(lua("A:clamp_(2, 1)") == "clamp: low is 2 and high is 1, expected low <= high");
}

TEST_CASE("building blocks: einsum, running products, outer, diag, max and min", "[lua][tensor]") {
    Shell lua;
    lua(flat);
    lua("A = tensor{{1, 2}, {3, 4}}");
    CHECK(
        lua("flat(einsum('ij,jk->ik', A, A)), flat(einsum('ij->ji', A)), einsum('ii', A), einsum('i,i->', {1, 2}, {3, "
            "4})") == "2x2: 7 10 15 22 2x2: 1 3 2 4 5.0 11.0");
    CHECK(lua("einsum('ij', A, A)") == "einsum: \"ij\": 1 operand, got 2 Tensors");
    CHECK(lua("einsum(A, A)") == "einsum: formula: expected a string, got a Tensor");
    CHECK(lua("einsum('ij,j', A, 2)") == "einsum: operand 2: expected a Tensor, got a number");
    CHECK(lua("flat(cumprod(A, 1)), flat(cumprod{1, 2, 3}), flat(cummax{1, 3, 2}), flat(A:cummin(2))") ==
          "2x2: 1 2 3 8 3: 1 2 6 3: 1 3 3 2x2: 1 1 3 3");
    CHECK(lua("cumprod(A)") == "cumprod: dim: expected a number, got nothing");
    CHECK(lua("flat(outer({1, 2}, {3, 4, 5})), flat(diag{1, 2}), flat(diag(A))") ==
          "2x3: 3 4 5 6 8 10 2x2: 1 0 0 2 2: 1 4");
    CHECK(lua("flat(max(A, 2)), flat(min(A, {1, 3})), max(2, 3), min(2.5, 3)") == "2x2: 2 2 3 4 2x2: 1 2 1 3 3 2.5");
    CHECK(lua("flat(A:max({{2, 2}}))") == "2x2: 2 2 3 4");
    CHECK(lua("flat(A:max(tensor{2, 3})), flat(A:min(A:t()))") == "2x2: 2 3 3 4 2x2: 1 2 2 4");
    CHECK(lua("A:max(2)") ==
          "max: 2, expected a Tensor: x:maximum(dim) is along a dimension, max(x, 2) compares each element with 2");
    CHECK(lua("A:min(0.5)") ==
          "min: 0.5, expected a Tensor: x:minimum(dim) is along a dimension, min(x, 0.5) compares each element with "
          "0.5");
    CHECK(lua("max(A)") ==
          "max: one argument, expected two: max(A, B) takes element by element, maximum(A) of all "
          "elements");
}

TEST_CASE("numbers are rounded once on their way to 16 bits", "[lua][tensor]") {
    Shell lua;
    CHECK(lua("f16(65519.999), f16(65520), f16(1 + 2^-11 + 2^-30), f16(1 + 2^-11), bf16(1 + 2^-8 + 2^-40), bf16(-1 - "
              "2^-8 - 2^-40), f16(-1e-320), f16(1e300)") ==
          "65504.0 inf 1.0009765625 1.0 1.0078125 -1.0078125 -0.0 inf");
    lua("x = zeros(1, 'f16') x:set(1 + 2^-11 + 2^-30, 1)");
    CHECK(lua("x(1), fill(1 + 2^-11 + 2^-30, 1, 'f16')(1), tensor({1 + 2^-11 + 2^-30}, 'f64'):f16()(1)") ==
          "1.0009765625 1.0009765625 1.0009765625");
}

TEST_CASE("mistakes are answered with one sentence", "[lua][tensor]") {
    Shell lua;
    CHECK(lua("times(ones(1), ones(1), 3)") == "times: argument 3: a number, expected 2 arguments");
    CHECK(lua("exp(ones(1), 2)") == "exp: argument 2: a number, expected 1 argument");
    lua("x = ones(1, 1, 2, 2)");  // a call with two results
    CHECK(lua("size(abs(linear_attention(x, x, x)), 4), size(times(x, linear_attention(x, x, x)), 4)") == "2 2");
    CHECK(lua("dot(ones(1), ones(1), 2)") == "dot: argument 3: a number, expected 2 arguments");
    CHECK(lua("cost('hybrid', {N = 8, r = 2}, 5)").find("cost: argument 3: a number, expected 2 arguments") !=
          std::string::npos);
    CHECK(lua("lowrank('svd', ones(2, 2), ones(2, 2), {}, 5)")
              .find("lowrank: argument 5: a number, expected 4 arguments") != std::string::npos);
    CHECK(lua("clamp(ones(1), 0, 1, 2)") == "clamp: argument 4: a number, expected 3 arguments");
    lua("A = tensor{{1, 2}, {3, 4}}");
    CHECK(lua("A:smu()") == "Tensor has no method \"smu\" (did you mean \"sum\"?)");
    CHECK(lua("A.shape") == "Tensor has no method \"shape\" (it is called \"size\" here, see ?shape)");
    CHECK(lua("A.T") == "Tensor has no method \"T\" (A:t() is the transpose, of the last two dimensions)");
    CHECK(lua("A:detach()") == "Tensor has no method \"detach\" (it is a function here: detach(x))");
    CHECK(lua("A:numpy()") == "Tensor has no method \"numpy\" (save(\"a.npy\", A) writes what numpy.load reads)");
    CHECK(lua("A:mul_(2)") == "Tensor has no method \"mul_\" (it is called \"times_\" here)");
    CHECK(lua("A[':']") == "a Tensor is indexed as A(i, j), its first row as A(1, \":\"), not with [ ]");
    CHECK(lua("A:backward()") ==
          "Tensor has no method \"backward\" (g, value = grad(f, params) gives the gradients of a "
          "function f(params) and its value)");
    CHECK(lua("mean(A, {dim = 1})") == "mean: dim: a table, expected a number, as in mean(A, 1)");
    lua("B = randn(2, 3, 4)");
    CHECK(lua("A:sum{1, 2}") == lua("A:sum(1):sum(2)"));
    CHECK(lua("relative_error(B:mean{1, 3}, B:mean(1):mean(3)) < 1e-6, size(B:mean{1, 3})") == "true 1 3 1");
    CHECK(lua("A:maximum{2}") == lua("A:maximum(2)"));
    CHECK(lua("A:sum{1, 3}") == "sum: dim: 3, expected a number from 1 to 2 for a 2×2 Tensor{Float32}");
    CHECK(lua("A:sum{1, 1}") == "sum: dim: 1 stands twice in the list, expected each dimension once");
    CHECK(lua("A:sum(-1) == A:sum(2), A:sum(-2) == A:sum(1), cat(A, A, -1) == cat(A, A, 2)") == "true true true");
    CHECK(lua("A:sum(-3)") == "sum: dim: -3, expected a number from 1 to 2 for a 2×2 Tensor{Float32}");
    CHECK(contains(lua("randn(3, 4) * randn(3, 1)"), "; times(A, B) is the product element by element"));
    CHECK_FALSE(contains(lua("randn(3, 4) * randn(2, 4)"), "times"));
    CHECK(lua("A:std{1, 2}") == "std: dim: a table, expected a number, as in std(A, 1)");
    CHECK(lua("quantile(A, 0.5, {dim = 1})") == "quantile: dim: a table, expected a number, as in quantile(A, p, 1)");
    CHECK(lua("ones(2, {dtype = 'double'})").find("(it is called \"f64\" here, see ?double)") != std::string::npos);
    CHECK(lua("sum('x')") == "sum: expected a Tensor, got a string");
    CHECK(lua("sum()") == "sum: expected a Tensor, got nothing; as a method it is A:sum()");
    CHECK(lua("sum(linear_attention(x, x, x))") ==
          "sum: dim: a Tensor, expected a number; of a call with two results, sum((f(x))) takes the first");
    CHECK(lua("sum{'x'}") == "sum: element [1]: expected a number, got a string");
    CHECK(lua("sum(A, 3)") == "sum: dim: 3, expected a number from 1 to 2 for a 2×2 Tensor{Float32}");
    CHECK(lua("zeros()") == "zeros: expected dimensions, as in zeros(2, 3)");
    CHECK(lua("zeros(-1)") == "zeros: dimension 1: -1, expected 0 or more");
    CHECK(lua("zeros(2.5)") == "zeros: dimension 1: 2.5, expected a whole number");
    CHECK(lua("zeros(1, 2, 3, 4, 5)") == "zeros: expected at most 4 dimensions");
    CHECK(lua("zeros(2, 'Float23')") ==
          "zeros: dtype: \"Float23\", expected \"Float32\", \"Float64\", \"Float16\" or \"BFloat16\" (did you mean "
          "\"Float32\"?)");
    CHECK(lua("zeros(2, {dtpye = 'f32'})") == "zeros: unknown option \"dtpye\" (did you mean \"dtype\"?)");
    CHECK(lua("tensor{{1, 2}, {3}}") == "tensor: the table is ragged: row [2] has length 1, expected 2");
    CHECK(lua("tensor{{1, 2}, 3}") == "tensor: element [2]: expected a table, got a number");
    CHECK(lua("tensor{1, {2}}") == "tensor: element [2]: expected a number, got a table");
    CHECK(lua("tensor{{{{{1}}}}}") == "tensor: expected a table nested at most 4 deep");
    CHECK(lua("t = {} t[1] = t return tensor(t)") == "tensor: expected a table nested at most 4 deep");
    CHECK(lua("tensor(5)") == "tensor: expected a table of numbers, as in tensor{{1, 2}, {3, 4}}, got a number");
    CHECK(lua("range(1, 1/0)") == "range: from 1 to inf, expected finite ends");
    CHECK(lua("range(1, 2, {step = 0})") == "range: step: 0, expected a number other than 0");
    CHECK(lua("range(1, 10, 2)") == "range: 2 as the third argument, expected {step = 2} or {length = 2}");
    CHECK(lua("range(0, 1, 0.25)") == "range: 0.25 as the third argument, expected {step = 0.25}");
    CHECK(lua("range(0, 1, {step = 1, length = 2})") == "range: step and length, expected one of them");
    CHECK(lua("range(0, 1, {length = -1})") == "range: length: -1, expected at least 0");
    CHECK(lua("range(0, 1, {lenght = 2})") == "range: unknown option \"lenght\" (did you mean \"length\"?)");
    CHECK(lua("zeros(1e6, 1e6, 1e6, 1e6)") ==
          "out of memory: a tensor of 1000000×1000000×1000000×1000000 is too large");
    CHECK(lua("zeros(0, 2^32, 2^32)") ==
          "a tensor of 0×4294967296×4294967296: has no elements, but its other "
          "dimensions have a product beyond 2^59");
    CHECK(lua("return size(zeros(0, 2^32))") == "0 4294967296");
    CHECK(lua("zeros(1e7, 1e7)").find("out of memory: ") == 0);
    CHECK(lua("A:reshape(3)") == "reshape: 2×2 has 4 elements, the new shape 3 has 3");
    CHECK(lua("A:reshape(-1, ':')") == "reshape: dimensions 1 and 2 are both left open, expected one at most");
    CHECK(lua("A:reshape(3, -1)") ==
          "reshape: dimension 2 is left open, but the others do not divide the 4 elements of a 2×2 Tensor{Float32}");
    CHECK(lua("A:reshape(-1, 0)") ==
          "reshape: dimension 1 is left open, but the others do not divide the 4 elements of a 2×2 Tensor{Float32}");
    CHECK(lua("A:reshape(-1, 1e300, 1e300)").find("reshape: dimension 1 is left open") == 0);
    CHECK(lua("A:reshape(-1, 1, 1, 1, 1)").find("reshape: ") == 0);
    CHECK(lua("A:reshape(-2, 2)") == "reshape: dimension 1: -2, expected 0 or more");
    // What would mean something elsewhere is not passed over in silence; a second Tensor, as of a call with two
    // results, is.
    CHECK(lua("norm(A, 1)") ==
          "norm: argument 2: 1, expected none: the norm is of all elements; along a dimension it is sqrt(sum(pow(A, "
          "2), 1))");
    CHECK(lua("opnorm(A, 'inf')") ==
          "opnorm: argument 2: \"inf\", expected none: the operator norm is the largest singular value");
    // The report that a call returns beside its tensors passes, as further tensors do.
    lua("q = randn(1, 1, 8, 4)");
    for (const char* call :
         {"norm(softmax_attention(q, q, q, {shards = 2}))", "norm(tree_decode(q, q, q, {shards = 2}))",
          "softmax(tree_decode(q, q, q, {shards = 2}))"}) {
        CAPTURE(call);
        CHECK(lua(std::string("return type(") + call + ") ~= 'nil'") == "true");
    }
    CHECK(lua("norm(A, {2})").starts_with("norm: argument 2: a table, expected none"));
    CHECK(lua("log(8, 2)").find("log: argument 2: 2, expected none: it is the natural logarithm") == 0);
    CHECK(lua("softmax(A, 1)") == "softmax: argument 2: 1, expected none: it runs over the last dimension");
    CHECK(lua("sum(A, 1, 2)") ==
          "sum: argument 3: 2, expected none: several dimensions stand in a list, as in sum(A, {1, 2})");
    CHECK(lua("A:sum(1, false)") ==
          "sum: argument 3: false, expected none: the dimension stays, of length 1; reshape drops it");
    CHECK(lua("size(A:sum(1, true))") == "1 2");
    CHECK(lua("std(A, 1, 0)") == "std: argument 3: 0, expected none: it is always with n - 1");
    CHECK(lua("quantile(A, {0.5}, 1)").find("quantile: argument 3: 1, expected none") == 0);
    CHECK(lua("any(A, 3)") == "any: dim: 3, expected a number from 1 to 2 for a 2×2 Tensor{Float32}");
    CHECK(lua("norm(linear_attention(A, A, A)) > 0") == "true");
    CHECK(lua("cat(A, A)") == "cat: expected the dimension as the last argument, as in cat(A, B, 1), got a Tensor");
    CHECK(lua("cat(A, 3, 1)") == "cat: argument 2: expected a Tensor, got a number");
    CHECK(lua("permutedims(A, 1, 1)") == "permutedims: dimension 1 is named twice, expected each once");
    CHECK(lua("map(3, A)") == "map: expected a function and a Tensor, as in map(f, A), got a number");
    CHECK(lua("map(function() end, A)") == "map: the function returned nothing for element 1, expected a number");
    CHECK(lua("clamp(A, 1)") == "clamp: high: expected a number, got nothing");
    CHECK(lua("relative_error(ones(2, 3), f64(ones(3)))") ==
          "relative_error: the shapes differ, 2×3 Tensor{Float32} and 3-element Tensor{Float64}");
    CHECK(lua("seed('x')") == "seed: n: expected a number, got a string");
    CHECK(lua("inv{{1, 2}, {2, 4}}") == "inv: the matrix is singular");
    // The position is the caller's, and errors of functions given pass unchanged.
    CHECK(lua("select(2, pcall(load('local x = 1\\nlocal y = sum(x)', '=user')))") ==
          "user:2: sum: expected a Tensor, got a number");
    CHECK(lua("map(function() error('mine', 0) end, A)") == "mine");
}

TEST_CASE("scripts cannot break the type", "[lua][tensor]") {
    Shell lua;
    CHECK(lua("getmetatable(zeros(1))") == "Tensor");
    CHECK(lua("pcall(setmetatable, zeros(1), {})").find("false") == 0);
    // Finalised early, or seen by another finalizer afterwards: still a tensor, an empty one.
    CHECK(lua("local A = zeros(3) debug.getmetatable(A).__gc(A) debug.getmetatable(A).__gc(A) return #A, sum(A)") ==
          "0 0.0");
    CHECK(lua("seen = 'no' do local box = setmetatable({}, {__gc = function(o) seen = o.A:sum() end}) box.A = ones(3) "
              "end collectgarbage() collectgarbage() return seen")
              .find("no") == std::string::npos);
    CHECK(lua("pcall(debug.getmetatable(zeros(1)).__gc, io.stdout)").find("false") == 0);
    CHECK(lua("debug.getmetatable(zeros(1)).__call(3)").find("expected a Tensor") != std::string::npos);
}

TEST_CASE("a seed makes later numbers the same", "[lua][tensor]") {
    Shell lua;
    CHECK(lua("seed(5) local A, B = randn(10), rand(10) seed(5) return A == randn(10), B == rand(10), seed()") ==
          "true true 5");
    CHECK(lua("seed(6) local A = randn(10) seed(5) return A == randn(10)") == "false");
    CHECK(lua("seed(5) local x = math.random() seed(5) local y = math.random() seed(6) return x == y, x == "
              "math.random()") == "true false");
    CHECK(lua("math.random() math.randomseed = nil seed(5)") == "");
}

TEST_CASE("a loop that makes large tensors does not fill the memory", "[lua][tensor]") {
    Shell lua;
    memory::reset_peak();
    const std::size_t before = memory::current();
    CHECK(lua("for i = 1, 300 do local A = similar(zeros(1), 1 << 22) end return 'done'") ==
          "done");  // 300 times 16 MiB
    CHECK(memory::peak() - before < (std::size_t{700} << 20));
}

TEST_CASE("arguments of every wrong kind are answered and never crash", "[lua][tensor][fuzz]") {
    const char* given = std::getenv("CAUSEWAY_TEST_SEED");
    const std::string seed = given ? given : std::to_string(std::time(nullptr));
    CAPTURE(seed);
    Shell lua;
    const std::string code = "local random_seed = " + seed + R"(
math.randomseed(random_seed)
local values = {
  function() return math.random(-1, 4) end,
  function()
    return ({1.5, 0/0, 1/0, -1/0, 2^62, 1e18, -2^63, -2^31, math.maxinteger, math.mininteger, 0.5})[math.random(11)]
  end,
  function() return ({":", "x", "", "f64", "Float32", "bf16", ("x"):rep(100)})[math.random(7)] end,
  function() return {math.random(0, 3), math.random(0, 4)} end,
  function()
    return ({{}, {{}}, {1, "x"}, {{1}, {2, 3}}, {dtype = "f64"}, {dtype = 3}, {2, 3, dtype = "f16"},
      {a = 1}})[math.random(8)]
  end,
  function() return nil end,
  function() return true end,
  function() return math.sin end,
  function() return function(x) return math.random() < 0.9 and x or nil end end,
  function() return io.stdout end,
  function() return coroutine.create(function() end) end,
}
local types = {"f32", "f64", "f16", "bf16"}
local function tensor_value()
  local dims = {}
  for i = 1, math.random(1, 4) do dims[i] = math.random(0, 4) end
  local A = math.random() < 0.5 and randn(dims, types[math.random(4)]) or ones(dims, types[math.random(4)])
  if math.random() < 0.1 and #A > 0 then A:fill(0/0) end
  if math.random() < 0.3 then local n = math.random(0, 4) A = randn(n, n, "f64") end
  return A
end
local function value()
  if math.random() < 0.4 then return tensor_value() end
  return values[math.random(#values)]()
end
local names = {}
for name in pairs(debug.getmetatable(zeros(1)).__methods) do names[#names + 1] = name end
for _, name in ipairs{"zeros", "ones", "rand", "randn", "randperm", "range", "tensor"} do names[#names + 1] = name end
table.sort(names)
local metamethods = {"__call", "__add", "__sub", "__mul", "__div", "__unm", "__eq", "__len", "__tostring", "__index",
  "__newindex", "__pow", "__lt"}
local meta = debug.getmetatable(zeros(1))
local answered, done = 0, 0
for i = 1, 6000 do
  local arguments = table.pack(value(), value(), value(), value(), value(), value())
  arguments.n = math.random(0, 6)
  local name = names[math.random(#names)]
  local f = causeway[name] or meta.__methods[name]
  if math.random() < 0.4 then
    name = metamethods[math.random(#metamethods)]
    f = meta[name]
    arguments[1] = tensor_value()
  elseif math.random() < 0.7 then
    arguments[1] = tensor_value()
  end
  if name ~= "save" and name ~= "load" then
    local ok, message = pcall(f, table.unpack(arguments, 1, arguments.n))
    if ok then done = done + 1 else answered = answered + 1 end
    if not ok and not (type(message) == "string" and #message > 5) then error(name .. ": " .. tostring(message)) end
    if ok and math.random() < 0.1 then tostring(message) end
  end
end
return done > 500 and answered > 500)";
    CHECK(lua(code) == "true");
}
