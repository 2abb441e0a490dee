#!/usr/bin/env python3
"""flash-linear-attention on the sizes of bench_lightning and bench_delta, for the tables of experiments/notes/gpu.md.

Optional: needs PyTorch with CUDA and flash-linear-attention (fla-core is enough); without them, it says so and ends. Times are medians
between events, inputs larger than the cache; linear attention is checked at 1000 tokens against Float64. fla has tokens before heads.

    python3 experiments/peers/flash_linear_attention.py
"""
import math
import statistics

try:
    import torch
    from fla.ops.delta_rule import chunk_delta_rule
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
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


def error(decay):
    q, k, v = inputs(1, 1000, h)
    got = linear(decay, h)(q, k, v).double()
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    i = torch.arange(1000, device="cuda", dtype=torch.float64)
    back = (i[:, None] - i).clamp(min=0)
    log_gamma = alibi(h).double() if decay else torch.zeros(h, device="cuda", dtype=torch.float64)
    mask = torch.exp(log_gamma[:, None, None] * back) * (i[:, None] >= i)
    want = ((q @ k.transpose(2, 3)) * mask @ v).transpose(1, 2)
    return ((got - want).norm() / want.norm()).item()


rate = torch.empty(1 << 30, device="cuda", dtype=torch.float32)
other = torch.empty_like(rate)
copies = 2 * rate.numel() * 4 / median_ms(lambda: other.copy_(rate)) * 1e3
del rate, other
print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, copies at {copies * 1e-12:.2f} TB/s")
for decay, B, heads, N in ((True, 1, 32, 100000), (False, 1, 32, 100000), (True, 1, 32, 8192), (False, 1, 32, 8192), (True, 16, 32, 8192),
                           (True, 1, 8, 100000), (False, 1, 8, 100000)):
    q, k, v = inputs(B, N, heads)
    call = linear(decay, heads)
    with torch.no_grad():
        ms = median_ms(lambda: call(q, k, v))
    floor = 4.0 * q.numel() * 2 / copies * 1e3
    print(f"{'decay' if decay else 'mask':5} B={B} h={heads} N={N}: {ms:8.3f} ms, {ms / floor:5.2f} times the floor, error {error(decay):.1e}", flush=True)
q, k, v = inputs(1, 25600, h, grad=True)
call, do = linear(True, h), normal(1, 25600, h)


def both():
    q.grad = k.grad = v.grad = None
    call(q, k, v).backward(do)


print(f"decay h={h} N=25600, forward and backward: {median_ms(both):8.3f} ms", flush=True)
for N in (100000, 8192):
    q, k, v = inputs(1, N, h)
    k = torch.nn.functional.normalize(k.float(), dim=-1).bfloat16()
    g = -0.075 * torch.randn(1, N, h, device="cuda") ** 2
    beta = torch.rand(1, N, h, device="cuda")
    with torch.no_grad():
        gated = median_ms(lambda: chunk_gated_delta_rule(q, k, v, g, beta, scale=1.0))
        plain = median_ms(lambda: chunk_delta_rule(q, k, v, beta.bfloat16(), scale=1.0))
    print(f"h={h} N={N}: gated delta rule {gated:8.3f} ms, delta rule {plain:8.3f} ms", flush=True)
