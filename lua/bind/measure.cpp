// Clock, threads, counted memory, time limits, statistics and the machine. Names that start with an underscore serve
// the Lua files of lua/lib.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"
#include "core/measure/copy_rate.hpp"
#include "core/measure/machine.hpp"
#include "core/measure/product_rate.hpp"
#include "core/measure/statistics.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"

namespace causeway::lua {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The numbers of a Lua array or of a Tensor of any shape, in order.
Buffer<double> check_numbers(lua_State* L, int index, const char* argument) {
    if (is_tensor(L, index)) {
        const Tensor& tensor = check_tensor(L, index, argument);
        Buffer<double> out(tensor.size());
        for (Index i = 0; i < out.size(); ++i) out[i] = tensor.get(i);
        return out;
    }
    if (!lua_istable(L, index))
        fail(argument, ": expected a list of numbers or a Tensor, got ",
             lua_isnoneornil(L, index) ? "nothing" : "a " + type_name(L, index));
    Buffer<double> out(static_cast<Index>(lua_rawlen(L, index)));
    for (Index i = 0; i < out.size(); ++i) {
        if (lua_geti(L, index, i + 1) != LUA_TNUMBER)
            fail(argument, ": item ", i + 1, " is a ", type_name(L, -1), ", expected a number");
        out[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    return out;
}

std::span<const double> span_of(const Buffer<double>& numbers) {
    return {numbers.data(), static_cast<std::size_t>(numbers.size())};
}

// clock() -> seconds on a clock that never goes back
int clock(lua_State* L) {
    lua_pushnumber(L, now());
    return 1;
}

// threads([n]) -> the number of worker threads, after setting it to n
int threads_in_use(lua_State* L) {
    if (!lua_isnoneornil(L, 1)) {
        const Index n = check_integer(L, 1, "threads");
        if (n != static_cast<int>(n)) fail("threads: ", n, ", expected a number from 1 to 1024");
        set_threads(static_cast<int>(n));
    }
    lua_pushinteger(L, threads());
    return 1;
}

// _memory() -> bytes held now, most bytes held since _reset_peak()
int memory_held(lua_State* L) {
    lua_pushinteger(L, static_cast<lua_Integer>(memory::current()));
    lua_pushinteger(L, static_cast<lua_Integer>(memory::peak()));
    return 2;
}

int reset_peak(lua_State*) {
    memory::reset_peak();
    return 0;
}

// _machine() -> {processor, cores, threads, simd, memory, system, compiler, eigen, lua, causeway}
int machine_table(lua_State* L) {
    const Machine& m = machine();
    lua_createtable(L, 0, 10);
    set_field(L, "processor", m.processor);
    set_field(L, "cores", Index{m.cores});
    set_field(L, "threads", Index{threads()});
    set_field(L, "simd", m.simd);
    set_field(L, "memory", static_cast<Index>(m.memory));
    set_field(L, "system", m.system);
    set_field(L, "compiler", m.compiler);
    set_field(L, "eigen", m.eigen);
    set_field(L, "lua", LUA_VERSION_MAJOR "." LUA_VERSION_MINOR "." LUA_VERSION_RELEASE);
    set_field(L, "causeway", m.version);
    return 1;
}

// copy_rate(bytes[, {seconds = 0.3}]) -> bytes read and written a second
int rate_of_copies(lua_State* L) {
    const Options options(L, 2, "copy_rate", {"seconds"});
    lua_pushnumber(L, copy_rate(check_integer(L, 1, "bytes"), options.number("seconds", 0.3)));
    return 1;
}

// product_rate([n[, {dtype = "Float64", seconds = 0.25}]]) -> floating-point operations a second
int rate_of_products(lua_State* L) {
    const Index n = lua_isnoneornil(L, 1) ? 512 : check_integer(L, 1, "n");
    const Options options(L, 2, "product_rate", {"dtype", "seconds"});
    const bool wide = options.choice("dtype", "Float32", {"Float32", "Float64", "f32", "f64"}).back() == '4';
    lua_pushnumber(L, product_rate(n, wide ? DType::f64 : DType::f32, options.number("seconds", product_rate_seconds)));
    return 1;
}

// _summary(values) -> {count, minimum, median, mean, std, maximum}
int summary_table(lua_State* L) {
    const Summary s = summarize(span_of(check_numbers(L, 1, "values")));
    lua_createtable(L, 0, 6);
    set_field(L, "count", s.count);
    set_field(L, "minimum", s.minimum);
    set_field(L, "median", s.median);
    set_field(L, "mean", s.mean);
    set_field(L, "std", s.std);
    set_field(L, "maximum", s.maximum);
    return 1;
}

// growth_exponent(N, time) -> the p of time ≈ constant · N^p
int exponent(lua_State* L) {
    const Buffer<double> n = check_numbers(L, 1, "N"), seconds = check_numbers(L, 2, "time");
    lua_pushnumber(L, growth_exponent(span_of(n), span_of(seconds)));
    return 1;
}

// _numbers(list or Tensor, argument name, most) -> array, how many there were. Of more than `most` numbers evenly
// spread ones are taken, the first and the last among them.
int numbers(lua_State* L) {
    const std::string argument = check_string(L, 2, "argument");
    const Buffer<double> all = check_numbers(L, 1, argument.c_str());
    const Index n = std::min(all.size(), check_integer(L, 3, "most"));
    lua_createtable(L, static_cast<int>(n), 0);
    for (Index i = 0; i < n; ++i) {
        const auto at = n < all.size()
                            ? static_cast<Index>(static_cast<double>(i) * static_cast<double>(all.size() - 1) /
                                                 static_cast<double>(n - 1))
                            : i;
        lua_pushnumber(L, all[at]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushinteger(L, all.size());
    return 2;
}

// _cells(A, rows, columns) -> means over the cells of a grid of at most rows × columns laid over the matrix, row by
// row; the rows and columns of the grid; the rows and columns of A. A may have leading dimensions of 1.
int cells(lua_State* L) {
    const Tensor& a = check_tensor(L, 1, "A");
    if (a.ndim() < 2 || a.size() != a.shape().back(1) * a.shape().back(0))
        fail("A: ", a.summary(), ", expected one matrix, such as A(1, 1)");
    const Index height = a.shape().back(1), width = a.shape().back(0);
    if (a.size() == 0) fail("A: ", a.summary(), ", expected at least one element");
    const Index rows = std::min(height, check_integer(L, 2, "rows")),
                columns = std::min(width, check_integer(L, 3, "columns"));
    lua_createtable(L, static_cast<int>(rows * columns), 0);
    for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < columns; ++j) {
            const Index top = i * height / rows, bottom = (i + 1) * height / rows;
            const Index left = j * width / columns, right = (j + 1) * width / columns;
            double sum = 0;
            for (Index y = top; y < bottom; ++y) {
                for (Index x = left; x < right; ++x) sum += a.get(y * width + x);
            }
            lua_pushnumber(L, sum / static_cast<double>((bottom - top) * (right - left)));
            lua_rawseti(L, -2, i * columns + j + 1);
        }
    }
    for (const Index n : {rows, columns, height, width}) lua_pushinteger(L, n);
    return 5;
}

void stop_when_asked(lua_State* L, lua_Debug*) {
    std::string message;
    ErrorKind kind{};
    try {
        interrupt::check();
        return;
    } catch (const Error& error) {
        message = error.what(), kind = kind_of(error);
    }
    lua_sethook(L, stop_when_asked, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT,
                1);  // code that catches the error is stopped again
    raise_in_hook(L, message, kind);
}

// A deadline for C++ loops and, through a hook, for Lua loops; both as before when it ends, in whatever way.
class TimeLimit {
public:
    TimeLimit(lua_State* L, double seconds)
        : L_(L), hook_(lua_gethook(L)), mask_(lua_gethookmask(L)), count_(lua_gethookcount(L)), start_(now()) {
        left_ = interrupt::set_deadline(seconds);
        if (left_ != 0 && left_ < seconds) interrupt::set_deadline(std::max(left_, shortest));  // the nearer one holds
        lua_sethook(L_, stop_when_asked, LUA_MASKCOUNT, instructions);
    }
    ~TimeLimit() {
        if (lua_gethook(L_) == stop_when_asked) lua_sethook(L_, hook_, mask_, count_);  // else Ctrl-C has set its own
        interrupt::set_deadline(left_ == 0 ? 0 : std::max(left_ - (now() - start_), shortest));
    }
    TimeLimit(const TimeLimit&) = delete;
    TimeLimit& operator=(const TimeLimit&) = delete;

private:
    static constexpr int instructions = 10000;
    static constexpr double shortest = 1e-9;  // 0 would mean no limit

    lua_State* L_;
    lua_Hook hook_;
    int mask_, count_;
    double start_, left_ = 0;
};

// _with_timeout(seconds, f, ...) -> what f(...) returns; an error of the kind "timeout" past the limit
int with_timeout(lua_State* L) {
    const double seconds = check_number(L, 1, "timeout");
    if (!(seconds > 0)) fail("timeout: ", seconds, ", expected a number of seconds above 0");
    const TimeLimit limit(L, std::min(seconds, 1e9));
    lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
    return lua_gettop(L) - 1;
}

}  // namespace

void open_measure(lua_State* L) {
    add_functions(L, {
                         {"clock", guarded<clock>},
                         {"threads", guarded<threads_in_use>},
                         {"copy_rate", guarded<rate_of_copies>},
                         {"product_rate", guarded<rate_of_products>},
                         {"growth_exponent", guarded<exponent>},
                         {"_machine", guarded<machine_table>},
                         {"_memory", guarded<memory_held>},
                         {"_reset_peak", guarded<reset_peak>},
                         {"_summary", guarded<summary_table>},
                         {"_numbers", guarded<numbers>},
                         {"_cells", guarded<cells>},
                         {"_with_timeout", guarded<with_timeout>},
                     });
}

}  // namespace causeway::lua
