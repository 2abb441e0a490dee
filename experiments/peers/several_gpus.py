#!/usr/bin/env python3
"""One sequence on several GPUs with PyTorch and flash-linear-attention, on the rows of bench_sharded, for the table of docs/kernels/sharded.md.

Optional: needs PyTorch with CUDA, NCCL and a GPU for each process; flash-linear-attention (fla-core is enough) for its rows.

    torchrun --nproc-per-node 2 experiments/peers/several_gpus.py [softmax] [decode] [delta] [backward]

No word means all four. BFloat16, d = 128. Times are those of the slowest process between events, medians of calls that begin behind a barrier; outputs are
compared with those of one GPU first, as the relative norm of their difference.
"""
import os
import statistics
import sys

sys.path.pop(0)  # this folder, where fla would take flash_qla.py for the library of that name
known = ["softmax", "decode", "delta", "backward"]
parts = sys.argv[1:] or known
if unknown := set(parts) - set(known):
    raise SystemExit(f"several_gpus.py: parts are {', '.join(known)}, not {', '.join(sorted(unknown))}")
try:
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as reason:
    raise SystemExit(f"several_gpus.py: PyTorch is not here: {reason}")
if not torch.cuda.is_available() or "RANK" not in os.environ:
    raise SystemExit("several_gpus.py: expected GPUs, and torchrun --nproc-per-node with their number")
rank, p = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
mesh = init_device_mesh("cuda", (p,))
d = 128


def sdpa(*tensors):
    # Looked up in each call: context_parallel puts another function there.
    return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=True)


def say(text):
    if rank == 0:
        print(text, flush=True)


def median_ms(call, repeats=9, unmeasured=3, calls=1):
    """Of the slowest process."""
    times = []
    for i in range(repeats + unmeasured):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        dist.barrier()
        start.record()
        for _ in range(calls):
            call()
        stop.record()
        stop.synchronize()
        slowest = torch.tensor([start.elapsed_time(stop) / calls], device="cuda")
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        if i >= unmeasured:
            times.append(slowest.item())
    return statistics.median(times)


def relative(got, want):
    """Of all processes the largest."""
    x, y = got.float(), want.float()
    worst = ((x - y).norm() / y.norm()).reshape(1)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    return worst.item()


def show(name, one, several, error):
    say(f"{name:72} {one:9.3f} {several:9.3f} {one / several:6.2f} × error {error:.1e}")


def whole(heads, N, seed):
    """The same on every process."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(1, heads, N, d, device="cuda", dtype=torch.bfloat16, generator=generator)


def softmax(back):
    """PyTorch's context_parallel: a ring, or an all-gather of keys and values, with the causal load balanced."""
    try:
        from torch.distributed.tensor.experimental._context_parallel import context_parallel, context_parallel_unshard, set_rotate_method
    except ImportError:  # older versions
        from torch.distributed.tensor.experimental._attention import context_parallel, context_parallel_unshard, set_rotate_method

    for N in (32768,) if back else (131072, 32768):
        for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
            q, k, v = (whole(16, N, i) for i in (1, 2, 3))
            dO = whole(16, N, 4)
            with sdpa_kernel(backend):
                want, dk, one = None, None, 0
                if back:
                    q1, k1, v1 = (x.detach().requires_grad_() for x in (q, k, v))
                    out = sdpa(q1, k1, v1)
                    one = median_ms(lambda: torch.autograd.grad(out, (q1, k1, v1), dO, retain_graph=True))
                    dk = torch.autograd.grad(out, (q1, k1, v1), dO)[1]
                else:
                    want = sdpa(q, k, v)
                    one = median_ms(lambda: sdpa(q, k, v))
            for method in ("alltoall", "allgather"):
                name = f"context_parallel, {backend.name.split('_')[0]}, {method}, {'backward, ' if back else ''}N = {N}"
                try:
                    set_rotate_method(method)
                    x, y, z, g = (t.clone() for t in (q, k, v, dO))
                    buffers = [x, y, z, g]
                    with context_parallel(mesh, buffers=buffers, buffer_seq_dims=[2] * 4, no_restore_buffers=set(buffers)), sdpa_kernel(backend):
                        if back:
                            x, y, z = (t.requires_grad_() for t in (x, y, z))
                            out = sdpa(x, y, z)
                            several = median_ms(lambda: torch.autograd.grad(out, (x, y, z), g, retain_graph=True))
                            got = torch.autograd.grad(out, (x, y, z), g)[1]
                        else:
                            several = median_ms(lambda: sdpa(x, y, z))
                            got = sdpa(x, y, z)
                        together = context_parallel_unshard(mesh, [got.detach()], [2])[0]
                    show(name, one, several, relative(together, dk if back else want))
                except Exception as reason:  # what does not run is said
                    say(f"{name}: {type(reason).__name__}: {str(reason).splitlines()[0][:120]}")


def decode():
    """Flash attention of each process's keys, one all-gather of outputs and log-sum-exps, and their merge, in PyTorch."""
    for M in (80000, 640000):
        q, k, v = whole(16, 1, 1), whole(16, M, 2), whole(16, M, 3)
        own = [x[:, :, rank * M // p : (rank + 1) * M // p].contiguous() for x in (k, v)]
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        mine, all_of_them = (torch.empty(n, 16, d + 1, device="cuda") for n in (1, p))

        def alone():
            return flash(q, k, v, 0.0, False, False)[0]

        def together():
            out, lse = flash(q, own[0], own[1], 0.0, False, False)[:2]
            mine[0, :, :d], mine[0, :, d] = out[0, :, 0], lse[0, :, 0]
            dist.all_gather_into_tensor(all_of_them, mine)
            weights = torch.softmax(all_of_them[:, :, d], 0)
            return (all_of_them[:, :, :d] * weights[:, :, None]).sum(0).bfloat16()

        error = relative(together(), alone()[0, :, 0])
        one = median_ms(alone)
        show(f"flash, all-gather, merge: {M} keys, a plain call", one, median_ms(together, 30), error)
        for _ in range(3):
            together()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            together()
        show(f"flash, all-gather, merge: {M} keys, a graph", one, median_ms(graph.replay, 30), error)
        show(f"flash, all-gather, merge: {M} keys, a graph, a hundred in a row", one,
             median_ms(graph.replay, 5, calls=100), error)


def delta():
    """fla's gated delta rule with its context parallelism; forward alone."""
    from fla.ops.cp import build_cp_context
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    for N in (131072, 16384):
        torch.manual_seed(5)
        q, k, v = (torch.randn(1, N, 32, d, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        k = torch.nn.functional.normalize(k.float(), dim=-1).bfloat16()
        g, beta = -0.1 * torch.randn(1, N, 32, device="cuda").abs(), torch.rand(1, N, 32, device="cuda")
        context = build_cp_context(torch.tensor([0, N], device="cuda", dtype=torch.long), dist.group.WORLD)
        own = [x[:, rank * N // p : (rank + 1) * N // p].contiguous() for x in (q, k, v, g, beta)]
        with torch.no_grad():
            want = chunk_gated_delta_rule(q, k, v, g, beta, scale=1.0)[0]
            got = chunk_gated_delta_rule(*own, scale=1.0, cp_context=context)[0]
            error = relative(got, want[:, rank * N // p : (rank + 1) * N // p])
            one = median_ms(lambda: chunk_gated_delta_rule(q, k, v, g, beta, scale=1.0))
            several = median_ms(lambda: chunk_gated_delta_rule(*own, scale=1.0, cp_context=context))
        show(f"fla, gated delta rule with its context parallelism, N = {N}", one, several, error)


say(f"PyTorch {torch.__version__}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}, {p} × {torch.cuda.get_device_name()}")
say(f"{'ms':72} {'one GPU':>9} {'several':>9} {'faster':>7}")
calls = {"softmax": lambda: softmax(False), "decode": decode, "delta": delta, "backward": lambda: softmax(True)}
for part in parts:
    try:
        calls[part]()
    except Exception as reason:  # the other parts go on; what does not run is said
        say(f"{part}: {type(reason).__name__}: {str(reason).splitlines()[0][:200]}")
dist.destroy_process_group()
