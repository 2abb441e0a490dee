"""Gradients in PyTorch."""

from torch.autograd import Function
from torch.autograd.function import once_differentiable

from . import _functions, _general


def _forward(ctx, O, S, checkpoints):
    """The results of a forward pass; checkpoints have no gradient."""
    if checkpoints is not None:
        ctx.mark_non_differentiable(checkpoints)
    return O, S, checkpoints


def _rest_of_gradient(rest, q):
    """The options of a call for its gradient, which on a GPU keeps no more than the bits of calls on each sequence
    alone: "prefix" is a promise of outputs."""
    return {**rest, "sequences": {**rest["sequences"], "deterministic": None}} if q.is_cuda else rest


class LinearAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v, log_decay, beta, state, rest):
        ctx.save_for_backward(q, k, v, log_decay, beta, state)
        ctx.rest = rest
        return _forward(ctx, *_functions._linear(q, k, v, log_decay, beta, state, rest))

    @staticmethod
    @once_differentiable
    def backward(ctx, dO, dstate, _):
        q, k, v, log_decay, beta, state = ctx.saved_tensors
        found = _functions._linear_grad(q, k, v, dO, log_decay, beta, state, dstate, _rest_of_gradient(ctx.rest, q))
        dinitial = found["dstate"].reshape(state.shape) if ctx.needs_input_grad[5] else None
        return found["dq"], found["dk"], found["dv"], found.get("dlog_decay"), found.get("dbeta"), dinitial, None


class CausalLinearAttention(Function):
    @staticmethod
    def forward(ctx, B, C, V, state, return_state, rest):
        ctx.save_for_backward(B, C, V, state)
        ctx.rest = rest
        O, S, checkpoints = _functions._causal(B, C, V, state, return_state, rest)
        if S is not None:
            ctx.mark_non_differentiable(S)
        return _forward(ctx, O, S, checkpoints)

    @staticmethod
    @once_differentiable
    def backward(ctx, dO, *_):
        B, C, V, state = ctx.saved_tensors
        found = _functions._causal_grad(B, C, V, dO, state, ctx.rest)
        return found["dB"], found["dC"], found["dV"], found.get("dstate"), None, None


class SoftmaxAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v, rest):
        O, lse = _functions._softmax(q, k, v, rest)
        ctx.save_for_backward(q, k, v, O, lse)
        ctx.rest = rest
        ctx.mark_non_differentiable(lse)
        return O, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, dO, _):
        q, k, v, O, lse = ctx.saved_tensors
        found = _functions._softmax_grad(q, k, v, dO, O, lse, ctx.rest)
        return found["dq"], found["dk"], found["dv"], None


class GeneralLinearAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v, a, u, w, state, rest):
        ctx.save_for_backward(q, k, v, a, u, w, state)
        ctx.rest = rest
        return _forward(ctx, *_general.forward(q, k, v, a, u, w, state, rest))

    @staticmethod
    @once_differentiable
    def backward(ctx, dO, dstate, _):
        *inputs, state = ctx.saved_tensors
        found = _general.backward(*inputs[:3], dO, *inputs[3:], state, dstate, ctx.rest)
        dinitial = None if state is None else found["dstate"].reshape(state.shape)
        return *(found.get("d" + name) for name in "qkvauw"), dinitial, None


def around(family):
    """The function of autograd for a class of _around.py."""
    if family not in _families:
        _families[family] = _around_function(family)
    return _families[family]


_families = {}


def _around_function(family):
    class Around(Function):
        @staticmethod
        def forward(ctx, *arguments):
            *tensors, rest = arguments
            ctx.save_for_backward(*tensors)
            ctx.rest = rest
            return family.forward_of(*tensors, rest)

        @staticmethod
        @once_differentiable
        def backward(ctx, *arriving):
            return *family.backward_of(*ctx.saved_tensors, *arriving, ctx.rest), None

    Around.__name__ = family.__name__
    return Around
