// The attention calls on tensors of the GPU. Every call waits until its kernels have run: an error belongs to the call
// that made it, and the time of a call is that of its work.
#include "lua/bind/gpu.hpp"

#ifdef CAUSEWAY_GPU

#include <cstring>
#include <optional>

#include "core/base/text.hpp"
#include "gpu/base/wait.hpp"
#include "gpu/calls/general_linear_attention.hpp"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/features/low_rank.hpp"
#include "gpu/gradient/causal_linear_attention_grad.hpp"
#include "gpu/gradient/general_linear_attention_grad.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "gpu/gradient/softmax_attention_grad.hpp"
#include "gpu/sharded/linear_attention.hpp"
#include "gpu/sharded/linear_attention_grad.hpp"
#include "gpu/sharded/softmax_attention.hpp"
#include "lua/bind/attention.hpp"
#include "lua/bind/call.hpp"
#include "lua/bind/gpu_around.hpp"
#include "lua/bind/report.hpp"
#include "lua/bind/state_pool.hpp"

namespace causeway::lua {
namespace {

using gpu::Tensor;

void wait() {
    if (GpuWaits::now()) gpu::wait_for(nullptr, "running kernels");
}

int causal_linear_attention_(lua_State* L) {
    const auto& call = calls::causal_linear_attention<Tensor>();
    const Arguments given(L, call);
    const auto [B, C, V] = given.tensors<Tensor, 3>();
    const auto read = given.read(call);
    gpu::CausalOptions o{read};
    count_slots_from_zero(o);
    for (const std::string& name : registered_names(L)) {
        if (name == o.method) fail("method: \"", name, "\" is written in Lua, expected tensors on the CPU");
    }
    if (read.asked()) {
        const gpu::ShardedCausalResult sharded = gpu::causal_linear_attention_sharded(B, C, V, o, read);
        wait();
        push(L, sharded.O);
        if (o.return_state) push(L, sharded.state);
        push_report(L, sharded.report);
        return o.return_state ? 3 : 2;
    }
    const gpu::CausalResult result = gpu::causal_linear_attention(B, C, V, o);
    wait();
    push(L, result.O);
    int values = 1;
    if (o.return_state) push(L, result.state), ++values;
    if (result.checkpoints) push(L, *result.checkpoints), ++values;
    return values;
}

int causal_linear_attention_grad_(lua_State* L) {
    const auto& call = calls::causal_linear_attention_grad<Tensor>();
    const Arguments given(L, call);
    const auto [B, C, V, dO] = given.tensors<Tensor, 4>();
    auto o = given.read(call);
    count_slots_from_zero(o);
    const auto push_it = [&](const gpu::CausalGradient& g) {
        wait();
        std::optional<causeway::Tensor> ddecay;
        if (g.ddecay) ddecay = g.ddecay->cpu().to(DType::f64);
        push_causal_gradient(L, g, ddecay, is_one_number(L, given.options(), "decay"));
    };
    if (o.asked()) {
        const gpu::ShardedCausalGradient sharded =
            gpu::causal_linear_attention_grad_sharded(B, C, V, dO, gpu::CausalOptions{o}, o.ddecay, o);
        push_it(sharded);
        push_report(L, sharded.report);
        return 2;
    }
    push_it(gpu::causal_linear_attention_grad(B, C, V, dO, gpu::CausalOptions{o}, o.ddecay));
    return 1;
}

// Looking at the elements of gates waits for the kernels.
gpu::LinearOptions checked_as_it_waits(const calls::LinearOptions<Tensor>& given) {
    gpu::LinearOptions o{given};
    count_slots_from_zero(o);
    o.check_gates = GpuWaits::now();
    return o;
}

int linear_attention_(lua_State* L) {
    const auto& call = calls::linear_attention<Tensor>();
    const Arguments given(L, call);
    const auto [q, k, v] = given.tensors<Tensor, 3>();
    const auto o = given.read(call);
    if (o.asked()) {
        const gpu::ShardedLinearResult sharded = gpu::linear_attention_sharded(q, k, v, checked_as_it_waits(o), o);
        wait();
        push(L, sharded.O);
        push(L, sharded.state);
        push_report(L, sharded.report);
        return 3;
    }
    const gpu::LinearResult result = gpu::linear_attention(q, k, v, checked_as_it_waits(o));
    wait();
    return push_output(L, result);
}

int linear_attention_step_(lua_State* L) {
    const auto& call = calls::linear_attention_step<Tensor>();
    const Arguments given(L, call);
    auto [q, k, v, state] = given.tensors<Tensor, 4>();
    const auto read = given.read(call);
    gpu::LinearOptions o = checked_as_it_waits(read), shapes = o;
    shapes.check_gates = false, shapes.state = state;
    const auto sizes = gpu::gated::check(q, k, v, shapes).sizes;
    if (!o.inplace) advance_copy(state, gpu::gated::first_states(sizes, shapes), o);
    o.inplace = false;  // the step always advances what it is given
    Tensor O(q.dtype(), sizes.output);
    std::vector<Tensor> kept;
    std::vector<Tensor>* const states = read.keep_states ? &kept : nullptr;
    gpu::linear_attention_step(q, k, v, state, O, o, states);
    wait();
    return push_step(L, O, state, states);
}

int linear_attention_grad_(lua_State* L) {
    const auto& call = calls::linear_attention_grad<Tensor>();
    const Arguments given(L, call);
    const auto [q, k, v, dO] = given.tensors<Tensor, 4>();
    const auto o = given.read(call);
    if (o.asked()) {
        const gpu::ShardedLinearGradient sharded =
            gpu::linear_attention_grad_sharded(q, k, v, dO, checked_as_it_waits(o), o.dstate, o);
        wait();
        push_gradient(L, sharded);
        push_report(L, sharded.report);
        return 2;
    }
    const gpu::LinearGradient g = gpu::linear_attention_grad(q, k, v, dO, checked_as_it_waits(o), o.dstate);
    wait();
    push_gradient(L, g);
    return 1;
}

int general_linear_attention_(lua_State* L) {
    const auto& call = calls::general_linear_attention<Tensor>();
    const Arguments given(L, call);
    const auto [q, k, v] = given.tensors<Tensor, 3>();
    gpu::GeneralOptions o{given.read(call)};
    count_slots_from_zero(o);
    const gpu::LinearResult result = gpu::general_linear_attention(q, k, v, o);
    wait();
    return push_output(L, result);
}

int general_linear_attention_step_(lua_State* L) {
    const auto& call = calls::general_linear_attention_step<Tensor>();
    const Arguments given(L, call);
    auto [q, k, v, state] = given.tensors<Tensor, 4>();
    const auto read = given.read(call);
    gpu::GeneralOptions o{read};
    count_slots_from_zero(o);
    o.inplace = false;  // the step always advances what it is given
    const auto sizes = gpu::gated::check_general(q, k, v, o).sizes;
    if (!read.inplace) {
        causeway::gated::check_state(state.form(), v.form(), sizes, false);
        gpu::LinearOptions given_states;
        given_states.state = state;
        advance_copy(state, gpu::gated::first_states(sizes, given_states), o);
    }
    Tensor O(q.dtype(), sizes.output);
    std::vector<Tensor> kept;
    std::vector<Tensor>* const states = read.keep_states ? &kept : nullptr;
    gpu::general_linear_attention_step(q, k, v, state, O, o, states);
    wait();
    return push_step(L, O, state, states);
}

int general_linear_attention_grad_(lua_State* L) {
    const auto& call = calls::general_linear_attention_grad<Tensor>();
    const Arguments given(L, call);
    const auto [q, k, v, dO] = given.tensors<Tensor, 4>();
    auto o = given.read(call);
    count_slots_from_zero(o);
    const gpu::GeneralGradient g = gpu::general_linear_attention_grad(q, k, v, dO, gpu::GeneralOptions{o}, o.dstate);
    wait();
    push_general_gradient(L, g);
    return 1;
}

int softmax_attention_(lua_State* L) {
    const auto& call = calls::softmax_attention<Tensor>();
    const Arguments given(L, call);
    const auto [q, k, v] = given.tensors<Tensor, 3>();
    const auto o = given.read(call);
    if (o.asked()) {
        const gpu::ShardedSoftmaxResult sharded = gpu::softmax_attention_sharded(q, k, v, gpu::SoftmaxOptions{o}, o);
        wait();
        push(L, sharded.O);
        if (o.return_lse) push(L, sharded.lse);
        push_report(L, sharded.report);
        return o.return_lse ? 3 : 2;
    }
    const gpu::SoftmaxResult result = gpu::softmax_attention(q, k, v, gpu::SoftmaxOptions{o});
    wait();
    push(L, result.O);
    if (o.return_lse) push(L, result.lse);
    return o.return_lse ? 2 : 1;
}

int softmax_attention_grad_(lua_State* L) {
    const auto& call = calls::softmax_attention_grad<Tensor>();
    const Arguments given(L, call);
    const auto [q, k, v, dO] = given.tensors<Tensor, 4>();
    const auto o = given.read(call);
    const auto forward = given_forward<gpu::SoftmaxResult>(o.O, o.lse);
    if (o.asked()) {
        const gpu::ShardedSoftmaxGradient sharded =
            gpu::softmax_attention_grad_sharded(q, k, v, dO, gpu::SoftmaxOptions{o}, forward, o);
        wait();
        push_gradient(L, sharded);
        push_report(L, sharded.report);
        return 2;
    }
    const gpu::SoftmaxGradient g = gpu::softmax_attention_grad(q, k, v, dO, gpu::SoftmaxOptions{o}, forward);
    wait();
    push_gradient(L, g);
    return 1;
}

// tree_decode(q, k, v, options) -> output, report, lse
int tree_decode_(lua_State* L) {
    const auto& call = calls::tree_decode();
    const Arguments given(L, call);
    const auto [q, k, v] = given.tensors<Tensor, 3>();
    calls::DecodeCallOptions start;
    start.engine = "nccl";
    const auto o = given.read(call, start);
    const gpu::ShardedSoftmaxResult result = gpu::tree_decode(q, k, v, o);
    push(L, result.O);
    push_report(L, result.report);
    if (!o.return_lse) return 2;
    push(L, result.lse);
    return 3;
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

template <auto Describe, int (*F)(lua_State*)>
constexpr lua_CFunction with_pool = guarded<pooled<Describe, F>>;

}  // namespace

lua_CFunction gpu_call(const char* name) {
    static constexpr Entry calls[] = {
        {"causal_linear_attention", with_pool<calls::causal_linear_attention<Tensor>, causal_linear_attention_>},
        {"causal_linear_attention_grad", guarded<causal_linear_attention_grad_>},
        {"linear_attention", with_pool<calls::linear_attention<Tensor>, linear_attention_>},
        {"linear_attention_step", with_pool<calls::linear_attention_step<Tensor>, linear_attention_step_>},
        {"linear_attention_grad", guarded<linear_attention_grad_>},
        {"general_linear_attention", with_pool<calls::general_linear_attention<Tensor>, general_linear_attention_>},
        {"general_linear_attention_step",
         with_pool<calls::general_linear_attention_step<Tensor>, general_linear_attention_step_>},
        {"general_linear_attention_grad", guarded<general_linear_attention_grad_>},
        {"softmax_attention", guarded<softmax_attention_>},
        {"softmax_attention_grad", guarded<softmax_attention_grad_>},
        {"tree_decode", guarded<tree_decode_>},
        {"lowrank", guarded<lowrank_>}};
    for (const Entry& call : calls) {
        if (std::strcmp(call.name, name) == 0) return call.function;
    }
    return gpu_around_call(name);
}

}  // namespace causeway::lua

#endif
