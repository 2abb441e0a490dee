"""Holds the Python module on tensors of PyTorch to PyTorch. The folder of the module is the argument."""

import sys

import torch

sys.path.insert(0, sys.argv[1])
import causeway  # noqa: E402

torch.manual_seed(1)


def inputs(kind=torch.float64, b=1, h=2, N=9, r=3, d=4):
    def drawn(*shape):
        return (2 * torch.rand(*shape, dtype=torch.float64) - 1).to(kind).requires_grad_()

    q, k, v = drawn(b, h, N, r), drawn(b, h, N, r), drawn(b, h, N, d)
    g = (-torch.rand(b, h, N, dtype=torch.float64)).to(kind).requires_grad_()
    beta = torch.rand(b, h, N, dtype=torch.float64).to(kind).requires_grad_()
    state = drawn(b, h, r, d)
    return q, k, v, g, beta, state


def recurrence(q, k, v, g, beta, S):
    """The gated delta rule as PyTorch differentiates it."""
    rows = []
    for t in range(q.shape[2]):
        S = torch.exp(g[:, :, t, None, None]) * S
        old = torch.einsum("bhr,bhrd->bhd", k[:, :, t], S)
        S = S + torch.einsum("bhr,bhd->bhrd", k[:, :, t], beta[:, :, t, None] * (v[:, :, t] - old))
        rows.append(torch.einsum("bhr,bhrd->bhd", q[:, :, t], S))
    return torch.stack(rows, 2), S


def ours(q, k, v, g, beta, state):
    return causeway.linear_attention(q, k, v, update="gated_delta", log_decay=g, beta=beta, state=state)


x = inputs()
O, S = ours(*x)
wanted, state = recurrence(*x)
torch.testing.assert_close(O, wanted)
torch.testing.assert_close(S, state)
weights, of_state = torch.rand_like(O), torch.rand_like(S)
found = torch.autograd.grad((O * weights).sum() + (S * of_state).sum(), x)
exact = torch.autograd.grad((wanted * weights).sum() + (state * of_state).sum(), x)
for mine, theirs in zip(found, exact):
    torch.testing.assert_close(mine, theirs)
assert torch.autograd.gradcheck(ours, x)

# The order of other libraries, by strides, with gradients.
q, k, v, g, beta, _ = inputs()
turned = [t.detach().transpose(1, 2).requires_grad_() for t in (q, k, v)]
O = causeway.linear_attention(*turned, layout="bnhd")[0]
plain = causeway.linear_attention(q, k, v)[0]
torch.testing.assert_close(O.transpose(1, 2), plain)
dk = torch.autograd.grad(O.sum(), turned)[1]
torch.testing.assert_close(dk.transpose(1, 2), torch.autograd.grad(plain.sum(), k)[0])

assert torch.autograd.gradcheck(lambda B, C, V: causeway.causal_linear_attention(B, C, V, decay=0.9), (q, k, v))
assert torch.autograd.gradcheck(lambda q, k, v: causeway.softmax_attention(q, k, v), (q, k, v))
scores = (q @ k.transpose(2, 3) / 3**0.5).masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), float("-inf"))
torch.testing.assert_close(causeway.softmax_attention(q, k, v), scores.softmax(-1) @ v)

# The general rule, and what stands around it.
u, w, a = (t.detach().requires_grad_() for t in (0.3 * k, k.clone(), torch.exp(g)))
assert torch.autograd.gradcheck(lambda *x: causeway.general_linear_attention(*x[:3], a=x[3], u=x[4], w=x[5]),
                                (q, k, v, a, u, w))
x, weight, gate = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((1, 6, 4), (4, 3), (1, 6, 4)))
bias = torch.randn(4, dtype=torch.float64, requires_grad=True)
assert torch.autograd.gradcheck(lambda x, w, b: causeway.short_convolution(x, w, bias=b, activation="silu"), (x, weight, bias))
assert torch.autograd.gradcheck(causeway.l2norm, x)
assert torch.autograd.gradcheck(lambda x, w, g: causeway.rms_norm(x, weight=w, gate=g), (x, bias, gate))
rates = torch.randn(2, dtype=torch.float64, requires_grad=True)
assert torch.autograd.gradcheck(lambda g, r: causeway.decay_gate(g, r), (g, rates))

# Types that only store; no gradient is asked for where none is wanted.
for kind in (torch.float32, torch.bfloat16, torch.float16):
    q, k, v, g, beta, state = (t.detach() for t in inputs(kind))
    O, S = causeway.linear_attention(q, k, v, update="gated", log_decay=g.float())
    assert O.dtype == kind and S.dtype == torch.float32 and not O.requires_grad
    wanted = causeway.linear_attention(q.double(), k.double(), v.double(), update="gated", log_decay=g.double())[0]
    assert (O.double() - wanted).abs().max() < 0.03

state = torch.zeros(1, 2, 3, 4)
q, k, v, *_ = (t.detach() for t in inputs(torch.float32))
O, same = causeway.linear_attention_step(q[:, :, :1], k[:, :, :1], v[:, :, :1], state, inplace=True)
assert same is state and state.abs().max() > 0 and isinstance(O, torch.Tensor)


def refuses(sentence, f, *arguments, **options):
    try:
        f(*arguments, **options)
    except causeway.ArgumentError as error:
        assert sentence in str(error), error
        return
    raise AssertionError(f"not refused: {sentence}")


# What is written in place has memory of its own.
step, one = causeway.linear_attention_step, [x[:, :, :1] for x in (q, k, v)]
expanded = torch.zeros(1, 1, 3, 4).expand(1, 2, 3, 4)
refuses("state: shape (1, 2, 3, 4) with strides (12, 0, 4, 1), expected", step, *one, expanded, inplace=True)
step(*one, expanded)
within = state[:, :, :1, :3]
refuses("k: shares memory with state, which is written", step, one[0], within, one[2], state, inplace=True)
step(one[0], within, one[2], state)

# A tensor that is negated when it is read has its sign.
conjugate = torch.complex(k, -q).conj().imag
assert conjugate.is_neg() and torch.equal(conjugate, q)
assert torch.equal(causeway.linear_attention(conjugate, k, v)[0], causeway.linear_attention(q, k, v)[0])
negative = torch.complex(state, -state).conj().imag
assert torch.equal(step(*one, negative)[0], step(*one, state)[0]) and negative.is_neg()
refuses("state: negated when it is read", step, *one, negative, inplace=True)

# What would drop a gradient in silence is refused.
learnt = q.clone().requires_grad_()
refuses("q: requires a gradient, but a call in place", causeway.linear_attention, learnt, k, v, state=state, inplace=True)
refuses("q: requires a gradient, but a call with checkpoints", causeway.linear_attention, learnt, k, v, checkpoint_every=3)
pool = torch.zeros(3, 2, 3, 4, requires_grad=True)
refuses("state: requires a gradient, but a pool", causeway.linear_attention, q, k, v, state=pool, state_indices=[2])
dq = torch.autograd.grad(causeway.linear_attention(learnt, k, v, state=pool.detach(), state_indices=[2])[0].sum(), learnt)[0]
torch.testing.assert_close(dq, torch.autograd.grad(causeway.linear_attention(learnt, k, v)[0].sum(), learnt)[0])
token = [x[:, :, :1] for x in (learnt, k, v)]
refuses("expected a dense tensor", causeway.linear_attention, q.to_sparse(), k, v)
refuses("k: ndarray, expected a tensor of PyTorch", causeway.linear_attention, q, k.numpy(), v)
refuses("q: requires a gradient, but a step has none", causeway.linear_attention_step, *token, state)
refuses("the returned state", causeway.causal_linear_attention, learnt, k, v, method="fleet", return_state=True)
refuses("the log-sum-exp", causeway.softmax_attention, learnt, k, v, return_lse=True)
refuses("lowrank", causeway.lowrank, "taylor", learnt, k)
decay = torch.tensor(0.9, requires_grad=True)
refuses("decay: requires a gradient", causeway.causal_linear_attention, q, k, v, decay=decay)
refuses("decay[1]: requires a gradient", causeway.causal_linear_attention, q, k, v, decay=[0.9, decay])
scale = torch.nn.Parameter(torch.tensor(0.5))
for f, arrays in (
    (causeway.linear_attention, (learnt, k, v)),
    (causeway.linear_attention_grad, (q, k, v, v)),
    (causeway.linear_attention_step, (*one, state)),
    (causeway.causal_linear_attention, (learnt, k, v)),
    (causeway.causal_linear_attention_grad, (q, k, v, v)),
    (causeway.softmax_attention, (learnt, k, v)),
    (causeway.softmax_attention_grad, (q, k, v, v)),
    (causeway.lowrank, ("taylor", q, k)),
):
    refuses("scale: requires a gradient, but the scale has none, expected detach()", f, *arrays, scale=scale)
half = causeway.linear_attention(learnt, k, v, scale=scale.detach())[0]
torch.testing.assert_close(half, causeway.linear_attention(q, k, v, scale=0.5)[0].requires_grad_())

# The gradient is that of the offsets of the forward pass, whatever becomes of their tensor.
offsets = torch.tensor([0, 4, 9])
packed = causeway.linear_attention(learnt, k, v, cu_seqlens=offsets)[0].sum()
offsets[1] = 8
alone = causeway.linear_attention(learnt, k, v, cu_seqlens=[0, 4, 9])[0].sum()
assert torch.equal(*(torch.autograd.grad(x, learnt)[0] for x in (packed, alone)))
with torch.no_grad():
    assert causeway.linear_attention(learnt, k, v, scale=scale)[0].shape == (1, 2, 9, 4)
    assert not causeway.linear_attention_step(*token, state)[0].requires_grad
    assert causeway.softmax_attention(learnt, k, v, return_lse=True)[1].shape == (1, 2, 9)
print("the module holds with torch")
