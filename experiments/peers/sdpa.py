#!/usr/bin/env python3
"""PyTorch's scaled_dot_product_attention on the sizes of bench_flash, for the tables of docs/kernels/softmax.md.

Optional: needs PyTorch with CUDA; without it, it says so and ends. Times are medians of graph replays, those of gradients of plain
calls; every line but those of gradients is checked on one row against Float64.

    python3 experiments/peers/sdpa.py
"""
import statistics

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as sdpa
except ImportError as reason:
    raise SystemExit(f"sdpa.py: PyTorch is not here: {reason}")
if not torch.cuda.is_available():
    raise SystemExit("sdpa.py: PyTorch finds no GPU")


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


def median_of_replays(call):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return median_ms(graph.replay)


def measure(name, heads, N, M, d, causal, dtype=torch.bfloat16, flop=True):
    q = torch.randn(1, heads, N, d, device="cuda", dtype=dtype)
    k, v = (torch.randn(1, heads, M, d, device="cuda", dtype=dtype) for _ in range(2))
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        try:
            with sdpa_kernel(backend):
                out = sdpa(q, k, v, is_causal=causal)
                want = torch.softmax((k[0, 0].double() @ q[0, 0, -1].double()) * d**-0.5, 0) @ v[0, 0].double()
                error = ((out[0, 0, -1].double() - want).norm() / want.norm()).item()
                ms = median_of_replays(lambda: sdpa(q, k, v, is_causal=causal))
        except RuntimeError as reason:
            print(f"{name:32} {backend.name:20} not there: {str(reason).splitlines()[0][:60]}")
            continue
        work = 4.0 * heads * d * (N * (N + 1) / 2 if causal else N * M)
        rate = f"{work / ms * 1e-9:8.1f} TFLOP/s" if flop else f"{4.0 * heads * M * d / ms * 1e-6:8.0f} GB/s"
        print(f"{name:32} {backend.name:20} {ms:9.4f} ms {rate}  error {error:.2e}", flush=True)


def measure_gradient(name, heads, N, d, causal, dtype=torch.bfloat16):
    """The backward pass alone, in plain calls, from what the forward pass keeps; 5 products are counted."""
    q, k, v = (torch.randn(1, heads, N, d, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3))
    dO = torch.randn(1, heads, N, d, device="cuda", dtype=dtype)
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        with sdpa_kernel(backend):
            out = sdpa(q, k, v, is_causal=causal)
            ms = median_ms(lambda: torch.autograd.grad(out, (q, k, v), dO, retain_graph=True))
        work = 10.0 * heads * d * (N * (N + 1) / 2 if causal else N * N)
        print(f"{name:32} {backend.name:20} {ms:9.4f} ms {work / ms * 1e-9:8.1f} TFLOP/s", flush=True)


print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
for N in (4096, 8192, 16384):
    measure(f"bf16 causal N={N}", 16, N, N, 128, True)
measure("bf16 N=16384", 16, 16384, 16384, 128, False)
measure("bf16 causal N=16384 d=64", 16, 16384, 16384, 64, True)
measure("bf16 decoding M=640000", 16, 1, 640000, 128, False, flop=False)
measure("bf16 decoding M=8192", 16, 1, 8192, 128, False, flop=False)
measure("f32 causal N=4096", 16, 4096, 4096, 128, True, torch.float32)
for N in (4096, 8192, 16384):
    measure_gradient(f"gradient, bf16 causal N={N}", 16, N, 128, True)
measure_gradient("gradient, bf16 N=8192", 16, 8192, 128, False)
measure_gradient("gradient, bf16 causal N=8192 d=64", 16, 8192, 64, True)
