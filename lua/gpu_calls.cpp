// The attention calls on tensors of the GPU. Every call waits until its kernels have run: an error belongs to the call that made
// it, and the time of a call is that of its work.
#include "lua/gpu.hpp"

#ifdef CAUSEWAY_GPU

#include <cstring>
#include <optional>

#include "core/base/text.hpp"
#include "gpu/base/error.hpp"
#include "gpu/features/low_rank.hpp"
#include "gpu/gated/linear_attention.hpp"
#include "gpu/gradient/causal_linear_attention_grad.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "gpu/gradient/softmax_attention_grad.hpp"
#include "lua/attention_args.hpp"

namespace causeway::lua {
namespace {

using gpu::Tensor;

void wait() {
    if (GpuWaits::now()) gpu::check(cudaStreamSynchronize(nullptr), "running kernels");
}

// A call f(A, B, ..., options), or with everything in one table.
struct GpuArguments : Arguments {
    GpuArguments(lua_State* state, int tensors) : Arguments(state, tensors), L(state) {}

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

gpu::CausalOptions causal_options(lua_State* L, const Options& options) {
    gpu::CausalOptions o;
    o.method = options.string("method", o.method);
    o.decay = decay_option(L, options);
    o.normalize = options.boolean("normalize", o.normalize);
    if (options.has("block")) fail("block: given, but on the GPU every method has its own");
    o.scale = options.number("scale", o.scale);
    o.state = gpu_tensor_option(L, options, "state");
    const std::string precision = options.choice("precision", "bf16x3", {"exact", "bf16x3", "tf32"});
    o.precision = precision == "exact" ? gpu::Precision::exact : precision == "tf32" ? gpu::Precision::tf32 : gpu::Precision::bf16x3;
    check_device(options);
    return o;
}

int causal_linear_attention_(lua_State* L) {
    const GpuArguments given(L, 3);
    const Tensor B = given.gpu_tensor(1, "B", "q"), C = given.gpu_tensor(2, "C", "k"), V = given.gpu_tensor(3, "V", "v");
    const Options options = given.options("causal_linear_attention", causal_option_names(), {"B", "C", "V", "q", "k", "v"});
    gpu::CausalOptions o = causal_options(L, options);
    o.return_state = options.boolean("return_state", false);
    const gpu::CausalResult result = gpu::causal_linear_attention(B, C, V, o);
    wait();
    push(L, result.O);
    if (!o.return_state) return 1;
    push(L, result.state);
    return 2;
}

int causal_linear_attention_grad_(lua_State* L) {
    const GpuArguments given(L, 4);
    const Tensor B = given.gpu_tensor(1, "B", "q"), C = given.gpu_tensor(2, "C", "k"), V = given.gpu_tensor(3, "V", "v"), dO = given.gpu_tensor(4, "dO");
    const Options options = given.options("causal_linear_attention_grad", {"method", "decay", "normalize", "block", "scale", "device", "state", "precision", "ddecay"},
                                          {"B", "C", "V", "q", "k", "v", "dO"});
    const gpu::CausalOptions o = causal_options(L, options);
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

gpu::LinearOptions linear_options_of(lua_State* L, const Options& options) {
    gpu::LinearOptions o;
    o.update = options.string("update", o.update);
    o.log_decay = gpu_tensor_option(L, options, "log_decay");
    o.beta = gpu_tensor_option(L, options, "beta");
    o.mode = options.string("mode", o.mode);
    if (options.has("chunk") && options.integer("chunk", 1) < 1) fail("chunk: ", options.integer("chunk", 1), ", expected 1 or more");
    o.scale = options.number("scale", o.scale);
    o.check_gates = GpuWaits::now();  // looking at them waits
    check_device(options);
    return o;
}

int linear_attention_(lua_State* L) {
    const GpuArguments given(L, 3);
    const Tensor q = given.gpu_tensor(1, "q"), k = given.gpu_tensor(2, "k"), v = given.gpu_tensor(3, "v");
    const Options options = given.options("linear_attention", {"update", "log_decay", "beta", "mode", "chunk", "scale", "state", "device"}, {"q", "k", "v"});
    gpu::LinearOptions o = linear_options_of(L, options);
    o.state = gpu_tensor_option(L, options, "state");
    const gpu::LinearResult result = gpu::linear_attention(q, k, v, o);
    wait();
    push(L, result.O);
    push(L, result.state);
    return 2;
}

int linear_attention_step_(lua_State* L) {
    const GpuArguments given(L, 4);
    const Tensor q = given.gpu_tensor(1, "q"), k = given.gpu_tensor(2, "k"), v = given.gpu_tensor(3, "v");
    Tensor state = given.gpu_tensor(4, "state");
    const Options options = given.options("linear_attention_step", {"update", "log_decay", "beta", "scale", "inplace", "device"}, {"q", "k", "v", "state"});
    const gpu::LinearOptions o = linear_options_of(L, options);
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
    const GpuArguments given(L, 4);
    const Tensor q = given.gpu_tensor(1, "q"), k = given.gpu_tensor(2, "k"), v = given.gpu_tensor(3, "v"), dO = given.gpu_tensor(4, "dO");
    const Options options =
        given.options("linear_attention_grad", {"update", "log_decay", "beta", "mode", "chunk", "scale", "state", "device", "dstate"}, {"q", "k", "v", "dO"});
    gpu::LinearOptions o = linear_options_of(L, options);
    o.state = gpu_tensor_option(L, options, "state");
    const gpu::LinearGradient g = gpu::linear_attention_grad(q, k, v, dO, o, gpu_tensor_option(L, options, "dstate"));
    wait();
    lua_createtable(L, 0, 6);
    const auto field = [&](const char* key, const Tensor& value) {
        push(L, value);
        lua_setfield(L, -2, key);
    };
    field("dq", g.dq);
    field("dk", g.dk);
    field("dv", g.dv);
    if (g.dlog_decay) field("dlog_decay", *g.dlog_decay);
    if (g.dbeta) field("dbeta", *g.dbeta);
    field("dstate", g.dstate);
    return 1;
}

gpu::SoftmaxOptions softmax_options_of(const Options& options) {
    gpu::SoftmaxOptions o;
    o.causal = options.boolean("causal", o.causal);
    if (options.choice("method", "flash", {"flash", "standard"}) == "standard") fail("method: \"standard\" does not run on the GPU, expected \"flash\"");
    if (options.has("scale")) o.scale = options.number("scale", 1);
    check_device(options);
    return o;
}

int softmax_attention_(lua_State* L) {
    const GpuArguments given(L, 3);
    const Tensor q = given.gpu_tensor(1, "q"), k = given.gpu_tensor(2, "k"), v = given.gpu_tensor(3, "v");
    const Options options = given.options("softmax_attention", {"causal", "method", "scale", "return_lse", "device"}, {"q", "k", "v"});
    const gpu::SoftmaxOptions o = softmax_options_of(options);
    const bool return_lse = options.boolean("return_lse", false);
    const gpu::SoftmaxResult result = gpu::softmax_attention(q, k, v, o);
    wait();
    push(L, result.O);
    if (return_lse) push(L, result.lse);
    return return_lse ? 2 : 1;
}

int softmax_attention_grad_(lua_State* L) {
    const GpuArguments given(L, 4);
    const Tensor q = given.gpu_tensor(1, "q"), k = given.gpu_tensor(2, "k"), v = given.gpu_tensor(3, "v"), dO = given.gpu_tensor(4, "dO");
    const Options options = given.options("softmax_attention_grad", {"causal", "method", "scale", "O", "lse", "device"}, {"q", "k", "v", "dO"});
    const gpu::SoftmaxOptions o = softmax_options_of(options);
    const auto O = gpu_tensor_option(L, options, "O"), lse = gpu_tensor_option(L, options, "lse");
    if (O && !lse) fail("lse: missing, O was given and the gradient needs both or neither");
    if (lse && !O) fail("O: missing, lse was given and the gradient needs both or neither");
    std::optional<gpu::SoftmaxResult> forward;
    if (O) forward = gpu::SoftmaxResult{*O, *lse};
    const gpu::SoftmaxGradient g = gpu::softmax_attention_grad(q, k, v, dO, o, forward);
    wait();
    lua_createtable(L, 0, 3);
    for (const auto& [key, value] : {std::pair<const char*, const Tensor&>{"dq", g.dq}, {"dk", g.dk}, {"dv", g.dv}}) {
        push(L, value);
        lua_setfield(L, -2, key);
    }
    return 1;
}

int lowrank_(lua_State* L) {
    const std::string name = check_string(L, 1, "name");
    const Tensor q = check_gpu_tensor(L, 2, "q"), k = check_gpu_tensor(L, 3, "k");
    const auto& method = lowrank::method(name);
    if (!gpu::low_rank_takes(method.name)) fail("device: ", method.name, " does not run on the GPU, expected favor+, rfa, taylor or hedgehog there");
    const gpu::LowRank result = gpu::low_rank(name, q, k, lowrank_options(L, 4, method));
    wait();
    push(L, result.B);
    push(L, result.C);
    if (result.extras.empty()) return 2;
    lua_newtable(L);
    for (const auto& [key, value] : result.extras) {
        push(L, value);
        lua_setfield(L, -2, key.c_str());
    }
    return 3;
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
