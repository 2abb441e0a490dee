"""The general rule: a decay of each row of the state, and what two vectors of the token take out of it."""

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
    pointer_to,
    sequence_results,
    sequences_of,
    structs,
    text,
    turned,
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
from ._library import GeneralGradients, GeneralOptions, Tensor


def _options(a, u, w, state, mode, chunk, scale, sequences, inputs):
    options = GeneralOptions(size=ctypes.sizeof(GeneralOptions))
    options.mode, options.chunk, options.scale = text("mode", mode), chunk, double(scale)
    parts = {"a": optional("a", a), "u": optional("u", u), "w": optional("w", w)}
    for name, tensor in parts.items():
        setattr(options, name, pointer_to(tensor))
    first = first_state(state, sequences, {**inputs, **parts})
    options.state, options.given = pointer_to(first), (*parts.values(), first)
    return options, fill_sequences(options, sequences)


def _rest(mode, chunk, scale, sequences):
    return {"mode": mode, "chunk": count("chunk", chunk), "scale": number("scale", scale), "sequences": sequences}


def forward(q, k, v, a, u, w, state, rest):
    O, S = Tensor(), Tensor()
    inputs = structs(q=q, k=k, v=v)
    options, checkpoints = _options(a, u, w, state, inputs=inputs, **rest)
    wanted = None if rest["sequences"]["inplace"] else byref(S)
    arguments = (*map(byref, inputs.values()), byref(options), byref(O), wanted)
    call_where("general_linear_attention", arguments, (*inputs.values(), *options.given), (O, S, checkpoints))
    return sequence_results(state, rest["sequences"], O, S, checkpoints, torch_of(q, k, v))


def general_linear_attention(q, k, v, *, a=None, u=None, w=None, state=None, mode="chunkwise", chunk=None, scale=1.0,
                             cu_seqlens=None, state_indices=None, inplace=False, checkpoint_every=None,
                             deterministic=None, layout="bhnd"):
    """The output and the last state of S_t = (diag(a_t) - u_t w_t^T) S_(t-1) + k_t v_t^T; o_t = scale S_t^T q_t.

    a: [b, h, N] or [b, h, N, d_k], without it 1; u, w: [b, h, N, d_k], both or none. The rest is as in
    linear_attention. Tensors of PyTorch have gradients with respect to all of them, but with a pool.
    """
    given = {"q": q, "k": k, "v": v, "a": a, "u": u, "w": w, "state": state}
    torch = check_one_kind(given)
    sequences = sequences_of(cu_seqlens, state_indices, inplace, checkpoint_every, deterministic)
    check_states("a call", sequences, given)
    if state_indices is not None:
        check_no_gradient("the general rule with a pool", given)
    tensors = heads_first(layout, q, k, v, a, u, w)
    rest = _rest(mode, chunk, scale, sequences)
    if torch and not inplace:
        from ._torch import GeneralLinearAttention

        O, S, checkpoints = GeneralLinearAttention.apply(*tensors, state, rest)
    else:
        O, S, checkpoints = forward(*tensors, state, rest)
    O = turned(O, layout)
    return (O, S, checkpoints) if checkpoint_every else (O, S)


def backward(q, k, v, dO, a, u, w, state, dstate, rest):
    results = {name: Tensor() for name in ("dq", "dk", "dv")}
    results.update({"d" + name: Tensor() for name, x in (("a", a), ("u", u), ("w", w)) if x is not None})
    results["dstate"] = Tensor()
    wanted = GeneralGradients(size=ctypes.sizeof(GeneralGradients))
    for name, tensor in results.items():
        setattr(wanted, "dinitial" if name == "dstate" else name, pointer_to(tensor))
    inputs = structs(q=q, k=k, v=v, dO=dO)
    arriving = optional("dstate", dstate)
    options, _ = _options(a, u, w, state, inputs=inputs, **rest)
    arguments = (*map(byref, inputs.values()), pointer_to(arriving), byref(options), byref(wanted))
    call_where("general_linear_attention_grad", arguments, (*inputs.values(), arriving, *options.given), results.values())
    torch = torch_of(q, k, v)
    return {name: taken(tensor, torch) for name, tensor in results.items()}


def general_linear_attention_grad(q, k, v, dO, *, a=None, u=None, w=None, state=None, dstate=None, mode="chunkwise",
                                  chunk=None, scale=1.0, cu_seqlens=None, layout="bhnd"):
    """A dict of what arrives at the inputs when dO arrives at the output and dstate at the state at the end."""
    check_no_gradient("a gradient", {"q": q, "k": k, "v": v, "dO": dO, "a": a, "u": u, "w": w, "state": state,
                                     "dstate": dstate})
    tensors = heads_first(layout, q, k, v, dO, a, u, w)
    rest = _rest(mode, chunk, scale, sequences_of(cu_seqlens, None, False, None, None))
    found = backward(*tensors, state, dstate, rest)
    return {name: x if name == "dstate" else turned(x, layout) for name, x in found.items()}


def general_linear_attention_step(q, k, v, state, *, a=None, u=None, w=None, scale=1.0, inplace=False, layout="bhnd"):
    """The output of 1 to 16 tokens and the state after them, with inplace the given one, read and written once."""
    torch = check_no_gradient("a step", {"q": q, "k": k, "v": v, "state": state, "a": a, "u": u, "w": w})
    q, k, v, a, u, w = heads_first(layout, q, k, v, a, u, w)
    rest = _rest(None, None, scale, sequences_of(None, None, False, None, None))
    state = state if inplace else copied("state", state)
    O, advanced, inputs = Tensor(), writable("state", state), structs(q=q, k=k, v=v)
    if inplace:
        parts = {"a": optional("a", a), "u": optional("u", u), "w": optional("w", w)}
        check_apart("state", advanced, {**inputs, **parts})
    options, _ = _options(a, u, w, None, inputs=inputs, **rest)
    arguments = (*map(byref, inputs.values()), byref(options), byref(advanced), byref(O))
    call_where("general_linear_attention_step", arguments, (*inputs.values(), advanced, *options.given), (O,))
    return turned(taken(O, torch), layout), state
