// The attention calls on tensors of the GPU. Every call waits until its kernels have run: an error belongs to the call
// that made it, and the time of a call is that of its work.
#include "lua/bind/gpu.hpp"

#ifdef CAUSEWAY_GPU

#include <cstring>
#include <optional>

#include "core/base/text.hpp"
#include "gpu/base/error.hpp"
#include "gpu/features/low_rank.hpp"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/gradient/causal_linear_attention_grad.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "gpu/gradient/softmax_attention_grad.hpp"
#include "lua/bind/attention_args.hpp"
#include "lua/bind/attention_results.hpp"

namespace causeway::lua {
namespace {

using gpu::Tensor;

void wait() {
    if (GpuWaits::now()) gpu::check(cudaStreamSynchronize(nullptr), "running kernels");
}

// A call f(A, B, ..., options), or with everything in one table.
struct GpuArguments : Arguments {
    GpuArguments(lua_State* state, const CallForm& form) : Arguments(state, form), L(state) {}

    Tensor gpu_tensor(int index, const char* name, const char* alias = nullptr) const {
        push_tensor(index, name, alias);
        const Tensor out = check_gpu_tensor(L, -1, name);
        lua_pop(L, 1);
        return out;
    }

    lua_State* L;
};

std::optional<Tensor> gpu_tensor_option(lua_State* L, const Options& options, const char* key) {
    if (!options.has(key)) return {};
    options.push(key);
    const Tensor out = check_gpu_tensor(L, -1, key);
    lua_pop(L, 1);
    return out;
}

gpu::CausalOptions gpu_causal_options(lua_State* L, const Options& options) {
    gpu::CausalOptions o;
    o.method = options.string("method", o.method);
    o.decay = decay_option(L, options);
    o.normalize = options.boolean("normalize", o.normalize);
    if (options.has("block")) o.block = options.integer("block", 0);
    o.scale = options.number("scale", o.scale);
    o.state = gpu_tensor_option(L, options, "state");
    const std::string precision = options.choice("precision", "bf16x3", {"exact", "bf16x3", "tf32"});
    o.return_state = options.boolean("return_state", o.return_state);
    o.precision = precision == "exact"  ? gpu::Precision::exact
                  : precision == "tf32" ? gpu::Precision::tf32
                                        : gpu::Precision::bf16x3;
    check_device(options);
    return o;
}

int causal_linear_attention_(lua_State* L) {
    const GpuArguments given(L, call_forms::causal_linear_attention);
    const Tensor B = given.gpu_tensor(1, "B", "q"), C = given.gpu_tensor(2, "C", "k"),
                 V = given.gpu_tensor(3, "V", "v");
    const gpu::CausalOptions o = gpu_causal_options(L, given.options());
    for (const std::string& name : registered_names(L)) {
        if (name == o.method) fail("method: \"", name, "\" is written in Lua, expected tensors on the CPU");
    }
    const gpu::CausalResult result = gpu::causal_linear_attention(B, C, V, o);
    wait();
    push(L, result.O);
    if (!o.return_state) return 1;
    push(L, result.state);
    return 2;
}

int causal_linear_attention_grad_(lua_State* L) {
    const GpuArguments given(L, call_forms::causal_linear_attention_grad);
    const Tensor B = given.gpu_tensor(1, "B", "q"), C = given.gpu_tensor(2, "C", "k"),
                 V = given.gpu_tensor(3, "V", "v"), dO = given.gpu_tensor(4, "dO");
    const Options options = given.options();
    const gpu::CausalOptions o = gpu_causal_options(L, options);
    const bool one_decay = options.push("decay") == LUA_TNUMBER;
    lua_pop(L, 1);
    const gpu::CausalGradient g = gpu::causal_linear_attention_grad(B, C, V, dO, o, options.boolean("ddecay", true));
    wait();
    const int before = lua_gettop(L);
    push(L, g.dB);
    push(L, g.dC);
    push(L, g.dV);
    if (g.ddecay && one_decay) lua_pushnumber(L, g.ddecay->cpu().get(0));
    else if (g.ddecay) push(L, g.ddecay->cpu().to(DType::f64));
    if (g.dstate) push(L, *g.dstate);
    return lua_gettop(L) - before;
}

gpu::LinearOptions gpu_linear_options(lua_State* L, const Options& options) {
    gpu::LinearOptions o;
    o.update = options.string("update", o.update);
    o.log_decay = gpu_tensor_option(L, options, "log_decay");
    o.beta = gpu_tensor_option(L, options, "beta");
    o.mode = options.string("mode", o.mode);
    if (options.has("chunk") && options.integer("chunk", 1) < 1)
        fail("chunk: ", options.integer("chunk", 1), ", expected 1 or more");
    o.scale = options.number("scale", o.scale);
    o.check_gates = GpuWaits::now();  // looking at them waits
    check_device(options);
    return o;
}

int linear_attention_(lua_State* L) {
    const GpuArguments given(L, call_forms::linear_attention);
    const Tensor q = given.gpu_tensor(1, "q"), k = given.gpu_tensor(2, "k"), v = given.gpu_tensor(3, "v");
    const Options options = given.options();
    gpu::LinearOptions o = gpu_linear_options(L, options);
    o.state = gpu_tensor_option(L, options, "state");
    const gpu::LinearResult result = gpu::linear_attention(q, k, v, o);
    wait();
    push(L, result.O);
    push(L, result.state);
    return 2;
}

int linear_attention_step_(lua_State* L) {
    const GpuArguments given(L, call_forms::linear_attention_step);
    const Tensor q = given.gpu_tensor(1, "q"), k = given.gpu_tensor(2, "k"), v = given.gpu_tensor(3, "v");
    Tensor state = given.gpu_tensor(4, "state");
    const Options options = given.options();
    const gpu::LinearOptions o = gpu_linear_options(L, options);
    if (!options.boolean("inplace", false)) state = state.own(DType::f32);
    Shape shape = q.shape();
    if (q.ndim() > 0 && v.ndim() > 0) shape[q.ndim() - 1] = v.shape().back();
    Tensor O(q.dtype(), shape);
    gpu::linear_attention_step(q, k, v, state, O, o);
    wait();
    push(L, O);
    push(L, state);
    return 2;
}

int linear_attention_grad_(lua_State* L) {
    const GpuArguments given(L, call_forms::linear_attention_grad);
    const Tensor q = given.gpu_tensor(1, "q"), k = given.gpu_tensor(2, "k"), v = given.gpu_tensor(3, "v"),
                 dO = given.gpu_tensor(4, "dO");
    const Options options = given.options();
    gpu::LinearOptions o = gpu_linear_options(L, options);
    o.state = gpu_tensor_option(L, options, "state");
    const gpu::LinearGradient g = gpu::linear_attention_grad(q, k, v, dO, o, gpu_tensor_option(L, options, "dstate"));
    wait();
    push_gradient(L, g);
    return 1;
}

gpu::SoftmaxOptions gpu_softmax_options(const Options& options) {
    gpu::SoftmaxOptions o;
    o.causal = options.boolean("causal", o.causal);
    if (options.choice("method", "flash", {"flash", "standard"}) == "standard")
        fail("method: \"standard\" does not run on the GPU, expected \"flash\"");
    if (options.has("scale")) o.scale = options.number("scale", 1);
    check_device(options);
    return o;
}

int softmax_attention_(lua_State* L) {
    const GpuArguments given(L, call_forms::softmax_attention);
    const Tensor q = given.gpu_tensor(1, "q"), k = given.gpu_tensor(2, "k"), v = given.gpu_tensor(3, "v");
    const Options options = given.options();
    const gpu::SoftmaxOptions o = gpu_softmax_options(options);
    const bool return_lse = options.boolean("return_lse", false);
    const gpu::SoftmaxResult result = gpu::softmax_attention(q, k, v, o);
    wait();
    push(L, result.O);
    if (return_lse) push(L, result.lse);
    return return_lse ? 2 : 1;
}

int softmax_attention_grad_(lua_State* L) {
    const GpuArguments given(L, call_forms::softmax_attention_grad);
    const Tensor q = given.gpu_tensor(1, "q"), k = given.gpu_tensor(2, "k"), v = given.gpu_tensor(3, "v"),
                 dO = given.gpu_tensor(4, "dO");
    const Options options = given.options();
    const gpu::SoftmaxOptions o = gpu_softmax_options(options);
    const auto forward =
        given_forward<gpu::SoftmaxResult>(gpu_tensor_option(L, options, "O"), gpu_tensor_option(L, options, "lse"));
    const gpu::SoftmaxGradient g = gpu::softmax_attention_grad(q, k, v, dO, o, forward);
    wait();
    push_gradient(L, g);
    return 1;
}

int lowrank_(lua_State* L) {
    const std::string name = check_string(L, 1, "name");
    const Tensor q = check_gpu_tensor(L, 2, "q"), k = check_gpu_tensor(L, 3, "k");
    const auto& method = lowrank::method(name);
    if (!gpu::low_rank_takes(method.name))
        fail("device: ", method.name, " does not run on the GPU, expected favor+, rfa, taylor or hedgehog there");
    const gpu::LowRank result = gpu::low_rank(name, q, k, lowrank_options(L, 4, method));
    wait();
    return push_low_rank(L, result);
}

}  // namespace

lua_CFunction gpu_call(const char* name) {
    static constexpr Entry calls[] = {{"causal_linear_attention", guarded<causal_linear_attention_>},
                                      {"causal_linear_attention_grad", guarded<causal_linear_attention_grad_>},
                                      {"linear_attention", guarded<linear_attention_>},
                                      {"linear_attention_step", guarded<linear_attention_step_>},
                                      {"linear_attention_grad", guarded<linear_attention_grad_>},
                                      {"softmax_attention", guarded<softmax_attention_>},
                                      {"softmax_attention_grad", guarded<softmax_attention_grad_>},
                                      {"lowrank", guarded<lowrank_>}};
    for (const Entry& call : calls) {
        if (std::strcmp(call.name, name) == 0) return call.function;
    }
    return nullptr;
}

}  // namespace causeway::lua

#endif
