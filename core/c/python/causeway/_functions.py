"""The calls: options to structs, arrays in, arrays out."""

import ctypes
import operator
from ctypes import byref, pointer

import numpy

from ._arrays import (
    check_apart,
    check_no_gradient,
    check_one_kind,
    copied,
    optional,
    required,
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

LAYOUTS = ("bhnd", "bnhd")


def names(what):
    """The names of a list: "methods", "updates", "modes", "softmax_methods" or "lowrank"."""
    found = []
    while (name := LIBRARY.causeway_name(_text("list", what), len(found))) is not None:
        found.append(name.decode())
    if not found:
        raise ArgumentError(last_error())
    return found


def threads():
    """Worker threads of this process."""
    return LIBRARY.causeway_threads()


def set_threads(n):
    call("set_threads", _whole("threads", n, 1, 2**31 - 1))


def _text(name, value):
    if value is None:
        return None
    if not isinstance(value, str):
        raise ArgumentError(f"{name}: {value!r}, expected a name")
    return value.encode()


def _shown(value):
    """What came, for a sentence: numbers and texts as they are, of all else, which may be long, the type."""
    return repr(value) if isinstance(value, (bool, float, int, str)) else type(value).__name__


def _whole(name, value, least, most):
    """A whole number in a range, that of its member of a struct: ctypes would drop the bits that do not fit."""
    try:
        number = operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # the last two from arrays and tensors of several elements
        raise ArgumentError(f"{name}: {_shown(value)}, expected a whole number") from None
    if number < least:
        raise ArgumentError(f"{name}: {number}, expected {least} or more")
    if number > most:
        raise ArgumentError(f"{name}: {number}, expected {most} or less")
    return number


def _count(name, value):
    """A whole number from 1 on; None is 0, the default of the library."""
    return 0 if value is None else _whole(name, value, 1, 2**63 - 1)


def _number(name, value):
    """A number, without a gradient of its own, or None."""
    if value is None:
        return None
    check_no_gradient(f"the {name}", {name: value})
    try:
        return ctypes.c_double(value).value
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError(f"{name}: {_shown(value)}, expected a number") from None
    except OverflowError:
        raise ArgumentError(f"{name}: a whole number beyond 1.8e308, expected a smaller one") from None


def _several(name, values):
    """The elements of a list, an array or a tensor of one dimension; those of tensors without one gradient each."""
    if hasattr(values, "tolist"):
        check_no_gradient(f"the {name}", {name: values})
        values = values.tolist()
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        return None
    values = list(values)
    if not values:
        raise ArgumentError(f"{name}: empty, expected None where there is none")
    return values


def _double(number):
    return None if number is None else pointer(ctypes.c_double(number))


def _pointer(tensor):
    return None if tensor is None else pointer(tensor)


def _turned(x, layout):
    """[batch, length, heads, ...] as [batch, heads, length, ...], or back; no copy."""
    if layout == "bnhd" and hasattr(x, "__dlpack__") and not hasattr(x, "swapaxes"):
        x = numpy.from_dlpack(x)
    return x.swapaxes(1, 2) if layout == "bnhd" and hasattr(x, "swapaxes") else x


def _heads_first(layout, first, *others):
    """Arguments of that layout as the library has them; the first one has to have all four dimensions."""
    if layout not in LAYOUTS:
        raise ArgumentError(f"layout: {layout!r}, expected one of {', '.join(LAYOUTS)}")
    if layout == "bnhd" and len(getattr(first, "shape", "bnhd")) != 4:
        raise ArgumentError(f"layout: 'bnhd', but the first array is {tuple(first.shape)}, expected 4 dimensions")
    for x in others:
        if layout == "bnhd" and len(getattr(x, "shape", "bnhd")) < 3:
            raise ArgumentError(f"layout: 'bnhd', but an array is {tuple(x.shape)}, expected 3 or 4 dimensions")
    return [_turned(x, layout) for x in (first, *others)]


def _linear_options(update, log_decay, beta, state, mode, chunk, scale, cu_seqlens):
    options = LinearOptions(size=ctypes.sizeof(LinearOptions))
    options.update, options.mode = _text("update", update), _text("mode", mode)
    options.chunk, options.scale = chunk, _double(scale)
    options.log_decay = _pointer(optional("log_decay", log_decay))
    options.beta = _pointer(optional("beta", beta))
    options.state = _pointer(optional("state", state))
    options.cu_seqlens = (ctypes.c_int64 * len(cu_seqlens))(*cu_seqlens)
    options.cu_seqlens_count = len(cu_seqlens)
    return options


def _linear_rest(update, mode, chunk, scale, cu_seqlens):
    """The options that are no arrays, checked: before PyTorch's forward pass, in which nothing requires a gradient."""
    return {"update": update, "mode": mode, "chunk": _count("chunk", chunk), "scale": _number("scale", scale),
            "cu_seqlens": _offsets(cu_seqlens)}


def _offsets(cu_seqlens):
    """Where sequences begin and end, as a list of its own, so that the gradient sees those of the forward pass."""
    if cu_seqlens is None:
        return []
    offsets = _several("cu_seqlens", cu_seqlens)
    if offsets is None:
        raise ArgumentError(f"cu_seqlens: {_shown(cu_seqlens)}, expected a list of offsets")
    return [_whole(f"cu_seqlens[{i}]", offset, 0, 2**63 - 1) for i, offset in enumerate(offsets)]


def _linear(q, k, v, log_decay, beta, state, rest):
    O, S = Tensor(), Tensor()
    inputs = required("q", q), required("k", k), required("v", v)
    options = _linear_options(log_decay=log_decay, beta=beta, state=state, **rest)
    call("linear_attention", *map(byref, inputs), byref(options), byref(O), byref(S))
    torch = torch_of(q, k, v)
    return taken(O, torch), taken(S, torch)


def linear_attention(q, k, v, *, update="linear", log_decay=None, beta=None, state=None, mode="chunkwise", chunk=None,
                     scale=1.0, cu_seqlens=None, layout="bhnd"):
    """The output and the state after the last token, of S_t = the update of S_(t-1) by k_t, v_t; o_t = scale S_t^T q_t.

    update: "linear", "gated", "delta" or "gated_delta"; log_decay <= 0: [b, h, N] or [b, h, N, d_k]; beta: [b, h, N];
    state: to start from, [b, h, d_k, d_v]. Tensors of PyTorch have gradients with respect to all of them.
    """
    tensors = _heads_first(layout, q, k, v, log_decay, beta)
    rest = _linear_rest(update, mode, chunk, scale, cu_seqlens)
    if check_one_kind({"q": q, "k": k, "v": v, "log_decay": log_decay, "beta": beta, "state": state}):
        from ._torch import LinearAttention

        O, S = LinearAttention.apply(*tensors, state, rest)
    else:
        O, S = _linear(*tensors, state, rest)
    return _turned(O, layout), S


def _linear_grad(q, k, v, dO, log_decay, beta, state, dstate, rest):
    results = {name: Tensor() for name in ("dq", "dk", "dv")}
    if log_decay is not None:
        results["dlog_decay"] = Tensor()
    if beta is not None:
        results["dbeta"] = Tensor()
    results["dstate"] = Tensor()
    wanted = LinearGradients(size=ctypes.sizeof(LinearGradients))
    for name, tensor in results.items():
        setattr(wanted, "dinitial" if name == "dstate" else name, pointer(tensor))
    inputs = required("q", q), required("k", k), required("v", v), required("dO", dO)
    arriving = optional("dstate", dstate)
    options = _linear_options(log_decay=log_decay, beta=beta, state=state, **rest)
    call("linear_attention_grad", *map(byref, inputs), _pointer(arriving), byref(options), byref(wanted))
    torch = torch_of(q, k, v)
    return {name: taken(tensor, torch) for name, tensor in results.items()}


def linear_attention_grad(q, k, v, dO, *, update="linear", log_decay=None, beta=None, state=None, dstate=None,
                          mode="chunkwise", chunk=None, scale=1.0, cu_seqlens=None, layout="bhnd"):
    """A dict of what arrives at the inputs when dO arrives at the output and dstate at the state at the end."""
    inputs = {"q": q, "k": k, "v": v, "dO": dO, "log_decay": log_decay, "beta": beta, "state": state, "dstate": dstate}
    check_no_gradient("a gradient", inputs)
    tensors = _heads_first(layout, q, k, v, dO, log_decay, beta)
    rest = _linear_rest(update, mode, chunk, scale, cu_seqlens)
    found = _linear_grad(*tensors, state, dstate, rest)
    return {name: x if name == "dstate" else _turned(x, layout) for name, x in found.items()}


def linear_attention_step(q, k, v, state, *, update="linear", log_decay=None, beta=None, scale=1.0, inplace=False,
                          layout="bhnd"):
    """The output of 1 to 16 tokens and the state after them, with inplace the given one, read and written once."""
    torch = check_no_gradient("a step", {"q": q, "k": k, "v": v, "state": state, "log_decay": log_decay, "beta": beta})
    q, k, v, log_decay, beta = _heads_first(layout, q, k, v, log_decay, beta)
    rest = _linear_rest(update, None, None, scale, None)
    state = state if inplace else copied("state", state)
    O = Tensor()
    advanced = writable("state", state)
    inputs = required("q", q), required("k", k), required("v", v)
    if inplace:
        gates = optional("log_decay", log_decay), optional("beta", beta)
        check_apart("state", advanced, dict(zip(("q", "k", "v", "log_decay", "beta"), inputs + gates)))
    options = _linear_options(log_decay=log_decay, beta=beta, state=None, **rest)
    call("linear_attention_step", *map(byref, inputs), byref(options), byref(advanced), byref(O))
    return _turned(taken(O, torch), layout), state


def _decays(decay):
    """A number, or one per head, as a list; None is none."""
    if decay is None:
        return []
    decays = _several("decay", decay)
    if decays is None:
        return [_number("decay", decay)]
    return [_number(f"decay[{i}]", x) for i, x in enumerate(decays)]


def _causal_options(method, decay, normalize, block, scale, state):
    options = CausalOptions(size=ctypes.sizeof(CausalOptions))
    options.method, options.normalize = _text("method", method), bool(normalize)
    options.block, options.scale = block, _double(scale)
    options.decay = (ctypes.c_double * len(decay))(*decay)
    options.decay_count = len(decay)
    options.state = _pointer(optional("state", state))
    return options


def _causal_rest(method, decay, normalize, block, scale):
    """The options that are no arrays, checked, as _linear_rest does."""
    return {"method": method, "decay": _decays(decay), "normalize": normalize, "block": _count("block", block),
            "scale": _number("scale", scale)}


def _causal(B, C, V, state, return_state, rest):
    O, S = Tensor(), Tensor()
    inputs = required("B", B), required("C", C), required("V", V)
    options = _causal_options(state=state, **rest)
    call("causal_linear_attention", *map(byref, inputs), byref(options), byref(O), byref(S) if return_state else None)
    torch = torch_of(B, C, V)
    return taken(O, torch), taken(S, torch) if return_state else None


def causal_linear_attention(B, C, V, *, method="auto", decay=None, normalize=False, block=None, scale=1.0, state=None,
                            return_state=False, layout="bhnd"):
    """O = (B C^T * M) V with M[i,j] = decay^(i-j) for i >= j, else 0; with return_state O and the last state.

    decay: a number in (0, 1], or one per head; neither it nor a returned state has a gradient in PyTorch.
    """
    torch = check_one_kind({"B": B, "C": C, "V": V, "state": state})
    if return_state:
        check_no_gradient("the returned state", {"B": B, "C": C, "V": V, "state": state})
    B, C, V = _heads_first(layout, B, C, V)
    rest = _causal_rest(method, decay, normalize, block, scale)
    if torch:
        from ._torch import CausalLinearAttention

        O, S = CausalLinearAttention.apply(B, C, V, state, return_state, rest)
    else:
        O, S = _causal(B, C, V, state, return_state, rest)
    O = _turned(O, layout)
    return (O, S) if return_state else O


def _causal_grad(B, C, V, dO, state, rest):
    results = {name: Tensor() for name in ("dB", "dC", "dV")}
    dstate = None
    if state is not None:
        dstate = results["dstate"] = Tensor()
    inputs = required("B", B), required("C", C), required("V", V), required("dO", dO)
    options = _causal_options(state=state, **rest)
    ddecay = (ctypes.c_double * options.decay_count)()
    outputs = [byref(results[name]) for name in ("dB", "dC", "dV")]
    call("causal_linear_attention_grad", *map(byref, inputs), byref(options), *outputs, ddecay, _pointer(dstate))
    torch = torch_of(B, C, V)
    found = {name: taken(tensor, torch) for name, tensor in results.items()}
    if len(ddecay):
        found["ddecay"] = list(ddecay)
    return found


def causal_linear_attention_grad(B, C, V, dO, *, method="auto", decay=None, normalize=False, block=None, scale=1.0,
                                 state=None, layout="bhnd"):
    """A dict of what arrives at B, C, V, decay and state when dO arrives at the output."""
    check_no_gradient("a gradient", {"B": B, "C": C, "V": V, "dO": dO, "state": state})
    B, C, V, dO = _heads_first(layout, B, C, V, dO)
    rest = _causal_rest(method, decay, normalize, block, scale)
    found = _causal_grad(B, C, V, dO, state, rest)
    return {name: x if name in ("ddecay", "dstate") else _turned(x, layout) for name, x in found.items()}


def _softmax_options(causal, method, scale):
    options = SoftmaxOptions(size=ctypes.sizeof(SoftmaxOptions))
    options.method, options.scale = _text("method", method), _double(scale)
    options.sees_all_keys = not causal
    return options


def _softmax(q, k, v, rest):
    O, lse = Tensor(), Tensor()
    inputs = required("q", q), required("k", k), required("v", v)
    options = _softmax_options(**rest)
    call("softmax_attention", *map(byref, inputs), byref(options), byref(O), byref(lse))
    torch = torch_of(q, k, v)
    return taken(O, torch), taken(lse, torch)


def softmax_attention(q, k, v, *, causal=True, method="flash", scale=None, return_lse=False, layout="bhnd"):
    """softmax(scale q k^T) v, scale 1/sqrt(d) by default; with return_lse also the log-sum-exp of the scaled scores."""
    torch = check_one_kind({"q": q, "k": k, "v": v})
    if return_lse:
        check_no_gradient("the log-sum-exp", {"q": q, "k": k, "v": v})
    q, k, v = _heads_first(layout, q, k, v)
    rest = {"causal": causal, "method": method, "scale": _number("scale", scale)}
    if torch:
        from ._torch import SoftmaxAttention

        O, lse = SoftmaxAttention.apply(q, k, v, rest)
    else:
        O, lse = _softmax(q, k, v, rest)
    O = _turned(O, layout)
    return (O, _turned(lse, layout)) if return_lse else O


def _softmax_grad(q, k, v, dO, O, lse, rest):
    results = {name: Tensor() for name in ("dq", "dk", "dv")}
    inputs = required("q", q), required("k", k), required("v", v), required("dO", dO)
    forward = optional("O", O), optional("lse", lse)
    options = _softmax_options(**rest)
    call("softmax_attention_grad", *map(byref, inputs), *map(_pointer, forward), byref(options),
         *map(byref, results.values()))
    torch = torch_of(q, k, v)
    return {name: taken(tensor, torch) for name, tensor in results.items()}


def softmax_attention_grad(q, k, v, dO, *, O=None, lse=None, causal=True, method="flash", scale=None, layout="bhnd"):
    """A dict of what arrives at q, k and v when dO arrives at the output; O and lse save running the forward pass."""
    check_no_gradient("a gradient", {"q": q, "k": k, "v": v, "dO": dO, "O": O, "lse": lse})
    q, k, v, dO, O, lse = _heads_first(layout, q, k, v, dO, O, lse)
    rest = {"causal": causal, "method": method, "scale": _number("scale", scale)}
    found = _softmax_grad(q, k, v, dO, O, lse, rest)
    return {name: _turned(x, layout) for name, x in found.items()}


def lowrank(name, q, k, *, rank=None, seed=None, scale=None, v=None, layout="bhnd", **own):
    """B, C with B C^T near exp(scale q k^T), or the factorisation's own kernel; its own options by their names."""
    check_no_gradient("lowrank", {"q": q, "k": k, "v": v})
    q, k, v = _heads_first(layout, q, k, v)
    options = LowRankOptions(size=ctypes.sizeof(LowRankOptions))
    options.rank, options.scale = _count("rank", rank), _double(_number("scale", scale))
    if seed is not None:
        options.seed = pointer(ctypes.c_uint64(_whole("seed", seed, 0, 2**64 - 1)))
    options.v = _pointer(optional("v", v))
    options.names = (ctypes.c_char_p * len(own))(*(key.encode() for key in own))
    options.values = (ctypes.c_double * len(own))(*(_number(key, value) for key, value in own.items()))
    options.count = len(own)
    B, C = Tensor(), Tensor()
    inputs = required("q", q), required("k", k)
    call("lowrank", _text("name", name), *map(byref, inputs), byref(options), byref(B), byref(C))
    torch = torch_of(q, k)
    return _turned(taken(B, torch), layout), _turned(taken(C, torch), layout)
