// What the bindings of tensors share: reading element types, dimensions and operands from the Lua stack. All of these
// throw Error with a sentence that starts with the name of the function called.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "lua/bind/bind.hpp"

namespace causeway::lua {

// Adds functions that are also methods of tensors; methods only.
void add_functions_and_methods(lua_State* L, std::initializer_list<Entry> entries);
void add_methods(lua_State* L, std::initializer_list<Entry> entries);

// "Float32", "f32", "float32", ... Throws Error for another name, with the nearest known one.
DType parse_dtype(const std::string& text, const char* function);

// What a constructor is asked for: dims as numbers or as one table, then, if given, the element type as a name or as
// {dtype = name}: (2, 3, "f64"), ({2, 3}, {dtype = "Float64"}), {2, 3, dtype = "f64"}.
struct Wanted {
    Shape shape;  // no dimension: none given
    std::optional<DType> type;
};
Wanted check_wanted(lua_State* L, int first, const char* function);

// The same where dims must be given.
Wanted check_dims(lua_State* L, int first, const char* function);

// What reshape(A, 2, 3) or reshape(A, {2, 3}) asks for, from the second argument on; one dimension may be -1 or ":". Of
// `a`: type and shape.
Shape check_new_shape(lua_State* L, const Tensor& a);

// The element type alone, at `index`: nil, a name or {dtype = name}.
std::optional<DType> optional_dtype(lua_State* L, int index, const char* function);

// A Tensor (sharing the elements of the argument), or a table of numbers taken as a Tensor{Float64}.
Tensor check_operand(lua_State* L, int index, const char* function);

// The tensor that a nested table of numbers stands for. Throws Error for a ragged one.
Tensor from_table(lua_State* L, int index, DType type, const char* function);

// A dimension counted from 1 at `index`, or from -1 backwards from the last, returned counted from 0.
int check_dim(lua_State* L, int index, const Tensor& a, const char* function);

// Throws Error when the argument at `index`, which the function has not, is a number, a string or a plain table:
// norm(A, 1) is another norm elsewhere. Further Tensors pass, as the second value of norm(linear_attention(q, k, v)),
// and so do reports, as that of norm(tree_decode(q, k, v)).
void refuse_parameter(lua_State* L, int index, const char* function, const char* why);
// Throws Error, naming the function, where a number or a string comes after its `most` arguments. Tensors and tables
// may be further results of a call, as in abs(linear_attention(q, k, v)).
void refuse_more(lua_State* L, int max_arguments, const char* function);

// The families of functions; each adds its own.
void add_tensor_construction(lua_State* L);  // lua/bind/tensor_create.cpp
void add_tensor_indexing(lua_State* L);      // lua/bind/tensor_index.cpp
void add_tensor_shapes(lua_State* L);        // lua/bind/tensor_shape.cpp
void add_tensor_elementwise(lua_State* L);   // lua/bind/tensor_math.cpp
void add_tensor_reductions(lua_State* L);    // lua/bind/tensor_reduce.cpp
void add_tensor_linalg(lua_State* L);        // lua/bind/tensor_linalg.cpp
void add_tensor_in_place(lua_State* L);      // lua/bind/tensor_in_place.cpp

// Metamethods defined beside the functions they belong to.
int tensor_call(lua_State* L);  // A(i, j, ...)
int tensor_add(lua_State* L);
int tensor_subtract(lua_State* L);
int tensor_multiply(lua_State* L);
int tensor_divide(lua_State* L);
int tensor_negate(lua_State* L);

}  // namespace causeway::lua
