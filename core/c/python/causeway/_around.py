"""What stands around linear attention in models: short convolutions, norms and gates."""

import ctypes
from ctypes import byref

from ._arguments import double, number, offsets, text
from ._arrays import call_where, check_no_gradient, check_one_kind, optional, required, taken, torch_of
from ._library import Tensor


def _place(tensor):
    return None if tensor is None else byref(tensor)


def _run(name, first, others, behind, wanted):
    """causeway_NAME(first, others, behind, results): arrays by their names, None where there is none, of which the first
    is required, with what is no array between them. Returns the results by their names, None for those not wanted."""
    structs = [{key: optional(key, x) for key, x in arrays.items()} for arrays in (first, behind)]
    required(*next(iter(first.items())))
    found = {key: Tensor() if is_wanted else None for key, is_wanted in wanted.items()}
    arguments = (*map(_place, structs[0].values()), *others, *map(_place, structs[1].values()),
                 *map(_place, found.values()))
    call_where(name, arguments, [*structs[0].values(), *structs[1].values()], found.values())
    torch = torch_of(*first.values())
    return {key: None if tensor is None else taken(tensor, torch) for key, tensor in found.items()}


class ShortConvolution:
    """A call and its gradient, as PyTorch's autograd wants them: forward_of(tensors, rest), and what arrives at them."""

    @staticmethod
    def _parts(x, weight, bias, state, rest):
        numbers = rest["cu_seqlens"]
        required("weight", weight)
        others = text("activation", rest["activation"]), (ctypes.c_int64 * len(numbers))(*numbers), len(numbers)
        return {"x": x, "weight": weight, "bias": bias, "state": state}, others

    @staticmethod
    def forward_of(x, weight, bias, state, rest):
        parts = ShortConvolution._parts(x, weight, bias, state, rest)
        return tuple(_run("short_convolution", *parts, {}, {"y": True, "state": True}).values())

    @staticmethod
    def backward_of(x, weight, bias, state, dy, dstate, rest):
        parts = ShortConvolution._parts(x, weight, bias, state, rest)
        wanted = {"x": True, "weight": True, "bias": bias is not None, "state": state is not None}
        return tuple(_run("short_convolution_grad", *parts, {"dy": dy, "dstate": dstate}, wanted).values())


class L2Norm:
    @staticmethod
    def forward_of(x, rest):
        return _run("l2norm", {"x": x}, (double(rest["eps"]),), {}, {"y": True})["y"]

    @staticmethod
    def backward_of(x, dy, rest):
        return (_run("l2norm_grad", {"x": x}, (double(rest["eps"]),), {"dy": dy}, {"x": True})["x"],)


class RmsNorm:
    @staticmethod
    def _parts(x, weight, gate, rest):
        return {"x": x, "weight": weight, "gate": gate}, (text("activation", rest["activation"]), double(rest["eps"]))

    @staticmethod
    def forward_of(x, weight, gate, rest):
        return _run("rms_norm", *RmsNorm._parts(x, weight, gate, rest), {}, {"y": True})["y"]

    @staticmethod
    def backward_of(x, weight, gate, dy, rest):
        wanted = {"x": True, "weight": weight is not None, "gate": gate is not None}
        return tuple(_run("rms_norm_grad", *RmsNorm._parts(x, weight, gate, rest), {"dy": dy}, wanted).values())


class DecayGate:
    @staticmethod
    def _parts(a, A_log, dt_bias, rest):
        required("A_log", A_log)
        return {"a": a, "A_log": A_log, "dt_bias": dt_bias}, (double(rest["lower_bound"]),)

    @staticmethod
    def forward_of(a, A_log, dt_bias, rest):
        return _run("decay_gate", *DecayGate._parts(a, A_log, dt_bias, rest), {}, {"g": True})["g"]

    @staticmethod
    def backward_of(a, A_log, dt_bias, dg, rest):
        wanted = {"a": True, "A_log": True, "dt_bias": dt_bias is not None}
        return tuple(_run("decay_gate_grad", *DecayGate._parts(a, A_log, dt_bias, rest), {"dg": dg}, wanted).values())


def _apply(family, tensors, rest):
    """The results of a family: through PyTorch's autograd for its tensors."""
    if not check_one_kind(tensors):
        return family.forward_of(*tensors.values(), rest)
    from ._torch import around

    return around(family).apply(*tensors.values(), rest)


def short_convolution(x, weight, *, bias=None, state=None, activation="none", cu_seqlens=None):
    """y_t = f(bias + sum_i w_i x_(t - taps + 1 + i)), each channel by itself, and the last inputs.

    x: [b, N, channels] or [N, channels]; weight: [channels, taps]; bias: [channels]; activation: "none" or "silu";
    state: the inputs before the first token, [b, taps - 1, channels].
    """
    rest = {"activation": activation, "cu_seqlens": offsets("cu_seqlens", cu_seqlens)}
    return _apply(ShortConvolution, {"x": x, "weight": weight, "bias": bias, "state": state}, rest)


def l2norm(x, *, eps=1e-6):
    """x / sqrt(sum x^2 + eps) over the last dimension."""
    return _apply(L2Norm, {"x": x}, {"eps": number("eps", eps)})


def rms_norm(x, *, weight=None, gate=None, activation="silu", eps=1e-6):
    """x / sqrt(mean x^2 + eps) * weight * f(gate) over the last dimension; f is "silu" or "sigmoid"."""
    rest = {"activation": activation, "eps": number("eps", eps)}
    return _apply(RmsNorm, {"x": x, "weight": weight, "gate": gate}, rest)


def decay_gate(a, A_log, *, dt_bias=None, lower_bound=None):
    """-e^A_log softplus(a + dt_bias), or with lower_bound=L L sigmoid(e^A_log (a + dt_bias)): a log_decay.

    a: [b, h, N] or [b, h, N, d_k]; A_log: [h]; dt_bias: [h] or [h, d_k].
    """
    check_no_gradient("the lower bound", {"lower_bound": lower_bound})
    rest = {"lower_bound": number("lower_bound", lower_bound)}
    return _apply(DecayGate, {"a": a, "A_log": A_log, "dt_bias": dt_bias}, rest)
