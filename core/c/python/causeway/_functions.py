"""The calls: options to structs, arrays in, arrays out."""

import ctypes
from ctypes import byref

from ._arguments import (
    check_states,
    count,
    double,
    fill_sequences,
    first_state,
    heads_first,
    number,
    offsets,
    pointer_to,
    sequence_results,
    sequences_of,
    several,
    structs,
    text,
    turned,
    whole,
)
from ._arrays import (
    call_where,
    check_apart,
    check_no_gradient,
    check_one_kind,
    copied,
    optional,
    taken,
    torch_of,
    writable,
)
from ._library import (
    LIBRARY,
    ArgumentError,
    CausalOptions,
    LinearGradients,
    LinearOptions,
    LowRankOptions,
    SoftmaxOptions,
    Tensor,
    call,
    last_error,
)


def names(what):
    """The names of a list: "methods", "updates", "modes", "softmax_methods" or "lowrank"."""
    found = []
    while (name := LIBRARY.causeway_name(text("list", what), len(found))) is not None:
        found.append(name.decode())
    if not found:
        raise ArgumentError(last_error())
    return found


def threads():
    """Worker threads of this process."""
    return LIBRARY.causeway_threads()


def set_threads(n):
    call("set_threads", whole("threads", n, 1, 2**31 - 1))


def _linear_options(update, log_decay, beta, state, mode, chunk, scale, qk_l2norm, sequences, inputs):
    options = LinearOptions(size=ctypes.sizeof(LinearOptions), qk_l2norm=qk_l2norm)
    options.update, options.mode = text("update", update), text("mode", mode)
    options.chunk, options.scale = chunk, double(scale)
    gates = {"log_decay": optional("log_decay", log_decay), "beta": optional("beta", beta)}
    options.log_decay, options.beta = map(pointer_to, gates.values())
    first = first_state(state, sequences, {**inputs, **gates})
    options.state = pointer_to(first)
    options.given = (*gates.values(), first)
    return options, fill_sequences(options, sequences)


def _linear_rest(update, mode, chunk, scale, qk_l2norm, sequences):
    """The options that are no arrays, checked: before PyTorch's forward pass, in which nothing requires a gradient."""
    return {"update": update, "mode": mode, "chunk": count("chunk", chunk), "scale": number("scale", scale),
            "qk_l2norm": bool(qk_l2norm), "sequences": sequences}


def _linear(q, k, v, log_decay, beta, state, rest):
    O, S = Tensor(), Tensor()
    inputs = structs(q=q, k=k, v=v)
    options, checkpoints = _linear_options(log_decay=log_decay, beta=beta, state=state, inputs=inputs, **rest)
    wanted = None if rest["sequences"]["inplace"] else byref(S)
    arguments = (*map(byref, inputs.values()), byref(options), byref(O), wanted)
    call_where("linear_attention", arguments, (*inputs.values(), *options.given), (O, S, checkpoints))
    return sequence_results(state, rest["sequences"], O, S, checkpoints, torch_of(q, k, v))


def linear_attention(q, k, v, *, update="linear", log_decay=None, beta=None, state=None, mode="chunkwise", chunk=None,
                     scale=1.0, qk_l2norm=False, cu_seqlens=None, state_indices=None, inplace=False,
                     checkpoint_every=None, deterministic=None, layout="bhnd"):
    """The output and the state after the last token, of S_t = the update of S_(t-1) by k_t, v_t; o_t = scale S_t^T q_t.

    update: "linear", "gated", "delta" or "gated_delta"; log_decay <= 0: [b, h, N] or [b, h, N, d_k]; beta: [b, h, N];
    state: to start from, [b, h, d_k, d_v]. Tensors of PyTorch have gradients with respect to all of them. qk_l2norm: q and
    k are first divided by their lengths, as l2norm does.

    cu_seqlens: the offsets of packed sequences, of batch 1. state_indices: the state is a pool [slots, h, d_k, d_v], and
    these are the slots of the sequences, counted from 0. inplace: the last states are written to where the first ones
    came from. checkpoint_every=c: a third result has the states after c, 2c, ... tokens of each sequence. deterministic:
    "run", the same bits in every run; "alone", for a packed sequence those of a call on it alone, by itself on a GPU;
    "prefix", outputs that nothing later changes, by itself on the CPU.
    """
    given = {"q": q, "k": k, "v": v, "log_decay": log_decay, "beta": beta, "state": state}
    tensors = heads_first(layout, q, k, v, log_decay, beta)
    sequences = sequences_of(cu_seqlens, state_indices, inplace, checkpoint_every, deterministic)
    check_states("a call", sequences, given)
    rest = _linear_rest(update, mode, chunk, scale, qk_l2norm, sequences)
    if check_one_kind(given) and not inplace:
        from ._torch import LinearAttention

        O, S, checkpoints = LinearAttention.apply(*tensors, state, rest)
    else:
        O, S, checkpoints = _linear(*tensors, state, rest)
    O = turned(O, layout)
    return (O, S, checkpoints) if checkpoint_every else (O, S)


def _linear_grad(q, k, v, dO, log_decay, beta, state, dstate, rest):
    results = {name: Tensor() for name in ("dq", "dk", "dv")}
    if log_decay is not None:
        results["dlog_decay"] = Tensor()
    if beta is not None:
        results["dbeta"] = Tensor()
    results["dstate"] = Tensor()
    wanted = LinearGradients(size=ctypes.sizeof(LinearGradients))
    for name, tensor in results.items():
        setattr(wanted, "dinitial" if name == "dstate" else name, pointer_to(tensor))
    inputs = structs(q=q, k=k, v=v, dO=dO)
    arriving = optional("dstate", dstate)
    options, _ = _linear_options(log_decay=log_decay, beta=beta, state=state, inputs=inputs, **rest)
    arguments = (*map(byref, inputs.values()), pointer_to(arriving), byref(options), byref(wanted))
    call_where("linear_attention_grad", arguments, (*inputs.values(), arriving, *options.given), results.values())
    torch = torch_of(q, k, v)
    return {name: taken(tensor, torch) for name, tensor in results.items()}


def linear_attention_grad(q, k, v, dO, *, update="linear", log_decay=None, beta=None, state=None, dstate=None,
                          mode="chunkwise", chunk=None, scale=1.0, qk_l2norm=False, cu_seqlens=None, state_indices=None,
                          layout="bhnd"):
    """A dict of what arrives at the inputs when dO arrives at the output and dstate at the state at the end."""
    inputs = {"q": q, "k": k, "v": v, "dO": dO, "log_decay": log_decay, "beta": beta, "state": state, "dstate": dstate}
    check_no_gradient("a gradient", inputs)
    tensors = heads_first(layout, q, k, v, dO, log_decay, beta)
    sequences = sequences_of(cu_seqlens, state_indices, False, None, None)
    rest = _linear_rest(update, mode, chunk, scale, qk_l2norm, sequences)
    found = _linear_grad(*tensors, state, dstate, rest)
    return {name: x if name == "dstate" else turned(x, layout) for name, x in found.items()}


def linear_attention_step(q, k, v, state, *, update="linear", log_decay=None, beta=None, scale=1.0, qk_l2norm=False,
                          inplace=False, state_indices=None, layout="bhnd"):
    """The output of 1 to 16 tokens and the state after them, with inplace the given one, read and written once; with
    state_indices it is a pool, as in linear_attention."""
    torch = check_no_gradient("a step", {"q": q, "k": k, "v": v, "state": state, "log_decay": log_decay, "beta": beta})
    q, k, v, log_decay, beta = heads_first(layout, q, k, v, log_decay, beta)
    sequences = sequences_of(None, state_indices, False, None, None)
    rest = _linear_rest(update, None, None, scale, qk_l2norm, sequences)
    state = state if inplace else copied("state", state)
    O = Tensor()
    advanced = writable("state", state)
    inputs = structs(q=q, k=k, v=v)
    if inplace:
        gates = {"log_decay": optional("log_decay", log_decay), "beta": optional("beta", beta)}
        check_apart("state", advanced, {**inputs, **gates})
    options, _ = _linear_options(log_decay=log_decay, beta=beta, state=None, inputs=inputs, **rest)
    arguments = (*map(byref, inputs.values()), byref(options), byref(advanced), byref(O))
    call_where("linear_attention_step", arguments, (*inputs.values(), advanced, *options.given), (O,))
    return turned(taken(O, torch), layout), state


def _decays(decay):
    """A number, or one per head, as a list; None is none."""
    if decay is None:
        return []
    decays = several("decay", decay)
    if decays is None:
        return [number("decay", decay)]
    return [number(f"decay[{i}]", x) for i, x in enumerate(decays)]


def _causal_options(method, decay, normalize, block, scale, state, sequences, inputs):
    options = CausalOptions(size=ctypes.sizeof(CausalOptions))
    options.method, options.normalize = text("method", method), bool(normalize)
    options.block, options.scale = block, double(scale)
    options.decay = (ctypes.c_double * len(decay))(*decay)
    options.decay_count = len(decay)
    first = first_state(state, sequences, inputs)
    options.state, options.given = pointer_to(first), (first,)
    return options, fill_sequences(options, sequences)


def _causal_rest(method, decay, normalize, block, scale, sequences):
    """The options that are no arrays, checked, as _linear_rest does."""
    return {"method": method, "decay": _decays(decay), "normalize": normalize, "block": count("block", block),
            "scale": number("scale", scale), "sequences": sequences}


def _causal(B, C, V, state, return_state, rest):
    O, S = Tensor(), Tensor() if return_state else None
    inputs = structs(B=B, C=C, V=V)
    options, checkpoints = _causal_options(state=state, inputs=inputs, **rest)
    wanted = byref(S) if S is not None and not rest["sequences"]["inplace"] else None
    arguments = (*map(byref, inputs.values()), byref(options), byref(O), wanted)
    call_where("causal_linear_attention", arguments, (*inputs.values(), *options.given), (O, S, checkpoints))
    return sequence_results(state, rest["sequences"], O, S, checkpoints, torch_of(B, C, V))


def causal_linear_attention(B, C, V, *, method="auto", decay=None, normalize=False, block=None, scale=1.0, state=None,
                            return_state=False, cu_seqlens=None, state_indices=None, inplace=False,
                            checkpoint_every=None, deterministic=None, layout="bhnd"):
    """O = (B C^T * M) V with M[i,j] = decay^(i-j) for i >= j, else 0; with return_state O and the last state.

    decay: a number in (0, 1], or one per head; neither it nor a returned state has a gradient in PyTorch. cu_seqlens,
    state_indices, inplace and checkpoint_every are those of linear_attention; checkpoints are the last result.
    deterministic="prefix" asks for outputs that no later token changes (`?causal_linear_attention`).
    """
    given = {"B": B, "C": C, "V": V, "state": state}
    torch = check_one_kind(given)
    if return_state:
        check_no_gradient("the returned state", given)
    B, C, V = heads_first(layout, B, C, V)
    sequences = sequences_of(cu_seqlens, state_indices, inplace, checkpoint_every, deterministic)
    check_states("a call", sequences, given)
    rest = _causal_rest(method, decay, normalize, block, scale, sequences)
    if torch and not inplace:
        from ._torch import CausalLinearAttention

        O, S, checkpoints = CausalLinearAttention.apply(B, C, V, state, return_state, rest)
    else:
        O, S, checkpoints = _causal(B, C, V, state, return_state, rest)
    found = [turned(O, layout)] + [S] * bool(return_state) + [checkpoints] * bool(checkpoint_every)
    return tuple(found) if len(found) > 1 else found[0]


def _causal_grad(B, C, V, dO, state, rest):
    results = {name: Tensor() for name in ("dB", "dC", "dV")}
    dstate = None
    if state is not None:
        dstate = results["dstate"] = Tensor()
    inputs = structs(B=B, C=C, V=V, dO=dO)
    options, _ = _causal_options(state=state, inputs=inputs, **rest)
    on_gpu = inputs["B"].device is not None  # where the gradient of the decay is not among the results
    ddecay = (ctypes.c_double * (0 if on_gpu else options.decay_count))()
    outputs = [byref(results[name]) for name in ("dB", "dC", "dV")] + [ddecay] * (not on_gpu)
    arguments = (*map(byref, inputs.values()), byref(options), *outputs, pointer_to(dstate))
    call_where("causal_linear_attention_grad", arguments, (*inputs.values(), *options.given), results.values())
    torch = torch_of(B, C, V)
    found = {name: taken(tensor, torch) for name, tensor in results.items()}
    if len(ddecay):
        found["ddecay"] = list(ddecay)
    return found


def causal_linear_attention_grad(B, C, V, dO, *, method="auto", decay=None, normalize=False, block=None, scale=1.0,
                                 state=None, cu_seqlens=None, state_indices=None, layout="bhnd"):
    """A dict of what arrives at B, C, V, decay and state when dO arrives at the output."""
    check_no_gradient("a gradient", {"B": B, "C": C, "V": V, "dO": dO, "state": state})
    B, C, V, dO = heads_first(layout, B, C, V, dO)
    sequences = sequences_of(cu_seqlens, state_indices, False, None, None)
    rest = _causal_rest(method, decay, normalize, block, scale, sequences)
    found = _causal_grad(B, C, V, dO, state, rest)
    return {name: x if name in ("ddecay", "dstate") else turned(x, layout) for name, x in found.items()}


def _softmax_rest(causal, method, scale, cu_seqlens):
    """The options that are no arrays, checked, as _linear_rest does."""
    return {"causal": causal, "method": method, "scale": number("scale", scale),
            "cu_seqlens": offsets("cu_seqlens", cu_seqlens)}


def _softmax_options(causal, method, scale, cu_seqlens):
    options = SoftmaxOptions(size=ctypes.sizeof(SoftmaxOptions))
    options.cu_seqlens = (ctypes.c_int64 * len(cu_seqlens))(*cu_seqlens)
    options.cu_seqlens_count = len(cu_seqlens)
    options.method, options.scale = text("method", method), double(scale)
    options.sees_all_keys = not causal
    return options


def _softmax(q, k, v, rest):
    O, lse = Tensor(), Tensor()
    inputs = structs(q=q, k=k, v=v)
    options = _softmax_options(**rest)
    arguments = (*map(byref, inputs.values()), byref(options), byref(O), byref(lse))
    call_where("softmax_attention", arguments, inputs.values(), (O, lse))
    torch = torch_of(q, k, v)
    return taken(O, torch), taken(lse, torch)


def softmax_attention(q, k, v, *, causal=True, method="flash", scale=None, return_lse=False, cu_seqlens=None,
                      layout="bhnd"):
    """softmax(scale q k^T) v, scale 1/sqrt(d) by default; with return_lse also the log-sum-exp of the scaled scores.
    causal: the queries are the last positions of the keys; cu_seqlens: the offsets of packed sequences, in q as in k."""
    torch = check_one_kind({"q": q, "k": k, "v": v})
    if return_lse:
        check_no_gradient("the log-sum-exp", {"q": q, "k": k, "v": v})
    q, k, v = heads_first(layout, q, k, v)
    rest = _softmax_rest(causal, method, scale, cu_seqlens)
    if torch:
        from ._torch import SoftmaxAttention

        O, lse = SoftmaxAttention.apply(q, k, v, rest)
    else:
        O, lse = _softmax(q, k, v, rest)
    O = turned(O, layout)
    return (O, turned(lse, layout)) if return_lse else O


def _softmax_grad(q, k, v, dO, O, lse, rest):
    results = {name: Tensor() for name in ("dq", "dk", "dv")}
    inputs = structs(q=q, k=k, v=v, dO=dO)
    forward = optional("O", O), optional("lse", lse)
    options = _softmax_options(**rest)
    arguments = (*map(byref, inputs.values()), *map(pointer_to, forward), byref(options), *map(byref, results.values()))
    call_where("softmax_attention_grad", arguments, (*inputs.values(), *forward), results.values())
    torch = torch_of(q, k, v)
    return {name: taken(tensor, torch) for name, tensor in results.items()}


def softmax_attention_grad(q, k, v, dO, *, O=None, lse=None, causal=True, method="flash", scale=None, cu_seqlens=None,
                           layout="bhnd"):
    """A dict of what arrives at q, k and v when dO arrives at the output; O and lse save running the forward pass."""
    check_no_gradient("a gradient", {"q": q, "k": k, "v": v, "dO": dO, "O": O, "lse": lse})
    q, k, v, dO, O, lse = heads_first(layout, q, k, v, dO, O, lse)
    rest = _softmax_rest(causal, method, scale, cu_seqlens)
    found = _softmax_grad(q, k, v, dO, O, lse, rest)
    return {name: turned(x, layout) for name, x in found.items()}


def lowrank(name, q, k, *, rank=None, seed=None, scale=None, v=None, layout="bhnd", **own):
    """B, C with B C^T near exp(scale q k^T), or the factorisation's own kernel; its own options by their names."""
    check_no_gradient("lowrank", {"q": q, "k": k, "v": v})
    q, k, v = heads_first(layout, q, k, v)
    options = LowRankOptions(size=ctypes.sizeof(LowRankOptions))
    options.rank, options.scale = count("rank", rank), double(number("scale", scale))
    if seed is not None:
        options.seed = pointer_to(ctypes.c_uint64(whole("seed", seed, 0, 2**64 - 1)))
    options.v = pointer_to(optional("v", v))
    options.names = (ctypes.c_char_p * len(own))(*(key.encode() for key in own))
    options.values = (ctypes.c_double * len(own))(*(number(key, value) for key, value in own.items()))
    options.count = len(own)
    B, C = Tensor(), Tensor()
    inputs = structs(q=q, k=k)
    arguments = (text("name", name), *map(byref, inputs.values()), byref(options), byref(B), byref(C))
    call_where("lowrank", arguments, inputs.values(), (B, C))
    torch = torch_of(q, k)
    return turned(taken(B, torch), layout), turned(taken(C, torch), layout)
