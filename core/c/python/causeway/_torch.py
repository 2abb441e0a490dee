"""Gradients in PyTorch."""

from torch.autograd import Function
from torch.autograd.function import once_differentiable

from . import _functions


class LinearAttention(Function):
    @staticmethod
    def forward(ctx, q, k, v, log_decay, beta, state, rest):
        ctx.save_for_backward(q, k, v, log_decay, beta, state)
        ctx.rest = rest
        return _functions._linear(q, k, v, log_decay, beta, state, rest)

    @staticmethod
    @once_differentiable
    def backward(ctx, dO, dstate):
        q, k, v, log_decay, beta, state = ctx.saved_tensors
        found = _functions._linear_grad(q, k, v, dO, log_decay, beta, state, dstate, ctx.rest)
        dinitial = None if state is None else found["dstate"].reshape(state.shape)
        return found["dq"], found["dk"], found["dv"], found.get("dlog_decay"), found.get("dbeta"), dinitial, None


class CausalLinearAttention(Function):
    @staticmethod
    def forward(ctx, B, C, V, state, return_state, rest):
        ctx.save_for_backward(B, C, V, state)
        ctx.rest = rest
        O, S = _functions._causal(B, C, V, state, return_state, rest)
        if S is not None:
            ctx.mark_non_differentiable(S)
        return O, S

    @staticmethod
    @once_differentiable
    def backward(ctx, dO, _):
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
