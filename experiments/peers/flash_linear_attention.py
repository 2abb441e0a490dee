#!/usr/bin/env python3
"""flash-linear-attention on the sizes of bench_lightning and bench_delta, for the tables of docs/kernels/lightning.md.

Optional: needs PyTorch with CUDA and flash-linear-attention (fla-core is enough); without them, it says so and ends. Times are medians
between events, inputs larger than the cache; errors are of 1000 tokens (delta rules: 300) against the definition in Float64. fla has tokens before heads.

    python3 experiments/peers/flash_linear_attention.py [linear] [gradient] [delta] [channels] [backward]

No word means all five; channels are a gate per key channel, without the delta rule (GLA) and with it (KDA), as in bench_gated; backward is the backward pass alone of
these two and of the gated delta rule, as in bench_gated_gradient. The first calls compile and tune its kernels: minutes.
"""
import math
import statistics
import sys

sys.path.pop(0)  # this folder, where fla would take flash_qla.py for the library of that name
known = ["linear", "gradient", "delta", "channels", "backward"]
parts = sys.argv[1:] or known
if unknown := set(parts) - set(known):
    raise SystemExit(f"flash_linear_attention.py: parts are {', '.join(known)}, not {', '.join(sorted(unknown))}")
try:
    import torch
    from fla.ops.delta_rule import chunk_delta_rule
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.gla import chunk_gla
    from fla.ops.kda import chunk_kda
    from fla.ops.linear_attn import chunk_linear_attn
    from fla.ops.simple_gla import chunk_simple_gla
except ImportError as reason:
    raise SystemExit(f"flash_linear_attention.py: not here: {reason}")
if not torch.cuda.is_available():
    raise SystemExit("flash_linear_attention.py: PyTorch finds no GPU")
torch.manual_seed(1)
h, d = 32, 128


def median_ms(call, repeats=11):
    times = []
    for i in range(repeats + 3):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        stop.record()
        stop.synchronize()
        if i >= 3:
            times.append(start.elapsed_time(stop))
    return statistics.median(times)


def normal(B, N, heads, scale=1.0, grad=False):
    return (torch.randn(B, N, heads, d, device="cuda") * scale).bfloat16().requires_grad_(grad)


def alibi(heads):
    return torch.tensor([-(2.0 ** (-8.0 * (i + 1) / heads)) for i in range(heads)], device="cuda")


def inputs(B, N, heads, grad=False):
    return normal(B, N, heads, 1 / math.sqrt(d), grad), normal(B, N, heads, grad=grad), normal(B, N, heads, grad=grad)


def linear(decay, heads):
    if not decay:
        return lambda q, k, v: chunk_linear_attn(q, k, v, scale=1.0, normalize=False)[0]
    gamma = alibi(heads)
    return lambda q, k, v: chunk_simple_gla(q, k, v, g_gamma=gamma, scale=1.0)[0]


def relative(got, want):
    return ((got.double() - want).norm() / want.norm()).item()


def definition(q, k, v, decay):
    """(Q Kᵀ ⊙ M) V, M[i, j] = γ^(i-j) for j ≤ i; B, N, heads, d."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    i = torch.arange(q.shape[2], device="cuda", dtype=q.dtype)
    log_gamma = alibi(h).to(q.dtype) if decay else torch.zeros(h, device="cuda", dtype=q.dtype)
    mask = torch.exp(log_gamma[:, None, None] * (i[:, None] - i).clamp(min=0)) * (i[:, None] >= i)
    return ((q @ k.transpose(2, 3)) * mask @ v).transpose(1, 2)


def error(decay):
    q, k, v = inputs(1, 1000, h)
    return relative(linear(decay, h)(q, k, v), definition(q.double(), k.double(), v.double(), decay))


def gradient_error():
    q, k, v = inputs(1, 1000, h, grad=True)
    do = normal(1, 1000, h)
    linear(True, h)(q, k, v).backward(do)
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    definition(*exact, True).backward(do.double())
    return max(relative(x.grad, y.grad) for x, y in zip((q, k, v), exact))


def delta_inputs(N):
    q, k, v = inputs(1, N, h)
    k = torch.nn.functional.normalize(k.float(), dim=-1).bfloat16()
    return q, k, v, -0.075 * torch.randn(1, N, h, device="cuda") ** 2, torch.rand(1, N, h, device="cuda")


def delta_error(gated):
    """Against S ← e^g S, S ← S + β k (v - kᵀS)ᵀ, o = Sᵀq, token by token."""
    q, k, v, g, beta = delta_inputs(300)
    beta = beta if gated else beta.bfloat16()
    got = chunk_gated_delta_rule(q, k, v, g, beta, scale=1.0)[0] if gated else chunk_delta_rule(q, k, v, beta, scale=1.0)[0]
    x, y, z, f, b = (t[0].double() for t in (q, k, v, g if gated else 0 * g, beta))
    S, o = torch.zeros(h, d, d, device="cuda", dtype=torch.float64), []
    for t in range(300):
        S = S * f[t].exp()[:, None, None]
        S = S + y[t][:, :, None] * (b[t][:, None] * (z[t] - torch.einsum("hr,hrd->hd", y[t], S)))[:, None]
        o.append(torch.einsum("hr,hrd->hd", x[t], S))
    return relative(got[0], torch.stack(o))


def measure_linear():
    for decay, B, heads, N in ((True, 1, 32, 100000), (False, 1, 32, 100000), (True, 1, 32, 8192), (False, 1, 32, 8192), (True, 16, 32, 8192),
                               (True, 1, 8, 100000), (False, 1, 8, 100000)):
        q, k, v = inputs(B, N, heads)
        call = linear(decay, heads)
        with torch.no_grad():
            ms = median_ms(lambda: call(q, k, v))
        floor = 4.0 * q.numel() * 2 / copies * 1e3
        print(f"{'decay' if decay else 'mask':5} B={B} h={heads} N={N}: {ms:8.3f} ms, {ms / floor:5.2f} times the floor, error {error(decay):.1e}", flush=True)


def measure_gradient():
    q, k, v = inputs(1, 25600, h, grad=True)
    call, do = linear(True, h), normal(1, 25600, h)

    def both():
        q.grad = k.grad = v.grad = None
        call(q, k, v).backward(do)

    print(f"decay h={h} N=25600, forward and backward: {median_ms(both):8.3f} ms, error {gradient_error():.1e}", flush=True)


def measure_delta():
    for N in (100000, 8192):
        q, k, v, g, beta = delta_inputs(N)
        with torch.no_grad():
            ms = median_ms(lambda: chunk_gated_delta_rule(q, k, v, g, beta, scale=1.0))
            print(f"h={h} N={N}: gated delta rule {ms:8.3f} ms, error {delta_error(True):.1e}", flush=True)
            ms = median_ms(lambda: chunk_delta_rule(q, k, v, beta.bfloat16(), scale=1.0))
            print(f"h={h} N={N}: delta rule {ms:8.3f} ms, error {delta_error(False):.1e}", flush=True)


def channel_inputs(N):
    """As bench_gated draws them: keys of about unit norm, gates -0.1 |normal| for each channel, a state to start from."""
    q, k, v = normal(1, N, h, 1 / math.sqrt(d)), normal(1, N, h, 1 / math.sqrt(d)), normal(1, N, h)
    g = -0.1 * torch.randn(1, N, h, d, device="cuda").abs()
    return q, k, v, g, torch.rand(1, N, h, device="cuda"), 0.3 * torch.randn(1, h, d, d, device="cuda")


def with_channels(delta, q, k, v, g, beta, state):
    if delta:
        return chunk_kda(q, k, v, g, beta, scale=1.0, initial_state=state, output_final_state=True)[0]
    return chunk_gla(q, k, v, g, scale=1.0, initial_state=state, output_final_state=True)[0]


def by_tokens(delta, q, k, v, g, beta, state):
    """The definition, token by token; N, heads, d without a batch."""
    S, o = state, []
    for t in range(q.shape[0]):
        S = S * g[t].exp()[:, :, None]
        u = beta[t][:, None] * (v[t] - torch.einsum("hr,hrd->hd", k[t], S)) if delta else v[t]
        S = S + k[t][:, :, None] * u[:, None]
        o.append(torch.einsum("hr,hrd->hd", q[t], S))
    return torch.stack(o)


def channels_error(delta):
    given = channel_inputs(300)
    return relative(with_channels(delta, *given)[0], by_tokens(delta, *(x[0].double() for x in given)))


def measure_channels():
    given = channel_inputs(8192)
    with torch.no_grad():
        for delta in (False, True):
            ms = median_ms(lambda: with_channels(delta, *given))
            name = "with the delta rule (KDA)" if delta else "linear (GLA)"
            print(f"gate per channel, {name}, h={h} N=8192: {ms:8.3f} ms, error {channels_error(delta):.1e}", flush=True)


def backward_call(kind, N):
    """The backward pass of one call, and its inputs and the gradient it starts from."""
    given = list(channel_inputs(N))
    if kind == "gated delta":
        given[3] = given[3][..., 0].contiguous()
    inputs = [x.requires_grad_() for x in (given if kind != "GLA" else given[:4] + given[5:])]
    do = normal(1, N, h)
    if kind == "gated delta":
        q, k, v, g, beta, state = given
        o = chunk_gated_delta_rule(q, k, v, g, beta, scale=1.0, initial_state=state, output_final_state=True)[0]
    else:
        o = with_channels(kind == "KDA", *given)
    return given, inputs, do, lambda: torch.autograd.grad(o, inputs, do, retain_graph=True)


def backward_error(kind):
    """The largest relative error of the gradients; of 300 tokens."""
    given, inputs, do, call = backward_call(kind, 300)
    got = call()
    exact = [x.detach()[0].double().requires_grad_() for x in given]
    q, k, v, g, beta, state = exact
    o = by_tokens(kind != "GLA", q, k, v, g[..., None].expand(-1, -1, d) if kind == "gated delta" else g, beta, state)
    want = torch.autograd.grad(o, exact if kind != "GLA" else exact[:4] + exact[5:], do[0].double())
    return max(relative(x[0], y) for x, y in zip(got, want))


def measure_backward():
    for kind in ("GLA", "KDA", "gated delta"):
        call = backward_call(kind, 8192)[-1]
        print(f"backward, {kind}, h={h} N=8192: {median_ms(call):8.3f} ms, error {backward_error(kind):.1e}", flush=True)


rate = torch.empty(1 << 30, device="cuda", dtype=torch.float32)
other = torch.empty_like(rate)
copies = 2 * rate.numel() * 4 / median_ms(lambda: other.copy_(rate)) * 1e3
del rate, other
print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, copies at {copies * 1e-12:.2f} TB/s")
measures = {"linear": measure_linear, "gradient": measure_gradient, "delta": measure_delta, "channels": measure_channels,
            "backward": measure_backward}
for part in parts:
    measures[part]()
