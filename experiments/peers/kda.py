#!/usr/bin/env python3
"""The gated delta rule with a gate per key channel (KDA) by cuDNN's frontend and by flash-linear-attention, on Hopper.

Optional: needs PyTorch with CUDA and the peers that are asked for: nvidia-cudnn-frontend (1.32 was tried), fla-core.

    python3 experiments/peers/kda.py [N ...]      8192 2048; one sequence, 32 heads, d = 128, BFloat16, with states
      --peers LIST                                cudnn (the default), fla, with a comma between them
      --gates LIST                                slow, middle, steep (the default is slow,steep)

q and k have length 1, gates are log decays of each key channel in Float32, beta is Float32 in (0, 1). Gates: steep,
-5 sigmoid(x), for which cuDNN's kernels are made: they divide by products of 16 gates; middle, logsigmoid(x); slow,
-0.1 |x|. How long cuDNN's forward pass takes hangs on them: it cuts the sequence and begins each piece as far back as
the slowest channel of a head reaches. cuDNN's kernels are launched by themselves, with outputs made before. fla is told
that its gates are bounded; its backward pass is given sums of its forward pass. Outputs and gradients are compared with
the recurrence in Float64 and its derivative by autograd on 256 tokens, outputs of what is timed on their first 256.
Ours: build/gpu/bench_gated time channels, build/gpu/bench_gated_gradient.
"""
import argparse
import os
import sys

from graph_times import time_of

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("sizes", nargs="*", type=int, default=[8192, 2048])
parser.add_argument("--peers", default="cudnn")
parser.add_argument("--gates", default="slow,steep")
options = parser.parse_args()
os.environ["FLA_FLASH_KDA"] = "0"  # fla is timed for itself
sys.path.pop(0)  # the folder of this file, where fla would take flash_qla.py for the library of that name
try:
    import torch
except ImportError as reason:
    raise SystemExit(f"kda.py: not here: {reason}")
if not torch.cuda.is_available():
    raise SystemExit("kda.py: PyTorch finds no GPU")

H, D, SCALE = 32, 128, 128 ** -0.5
names = ("dq", "dk", "dv", "dg", "dbeta")


def problem(N, kind):
    torch.manual_seed(3)

    def normal(*shape):
        return torch.randn(*shape, device="cuda")

    def unit(x):
        return (x / x.norm(dim=-1, keepdim=True)).bfloat16()

    x = normal(N, H, D)
    g = {"steep": -5 * x.sigmoid(), "middle": torch.nn.functional.logsigmoid(x), "slow": -0.1 * x.abs()}[kind]
    return {"q": unit(normal(N, H, D)), "k": unit(normal(N, H, D)), "v": normal(N, H, D).bfloat16(), "g": g,
            "beta": normal(N, H).sigmoid(), "state": normal(1, H, D, D) / 8, "dO": normal(N, H, D).bfloat16(),
            "dstate": normal(1, H, D, D) / 8,  # states: heads, values, keys
            "offsets": torch.tensor([0, N], device="cuda", dtype=torch.int32)}


def recurrence(x, tokens):
    q, k, v, g, beta, S = (x[n] for n in ("q", "k", "v", "g", "beta", "state"))
    S, out = S[0].transpose(-1, -2), []
    for t in range(tokens):
        S = S * g[t].exp()[:, :, None]
        S = S + k[t][:, :, None] * (beta[t][:, None] * (v[t] - torch.einsum("hr,hrd->hd", k[t], S)))[:, None]
        out.append(SCALE * torch.einsum("hr,hrd->hd", q[t], S))
    return torch.stack(out), S.transpose(-1, -2)[None]


def relative(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def wanted(x):
    y = {n: t.double().requires_grad_(n in ("q", "k", "v", "g", "beta")) for n, t in x.items() if n != "offsets"}
    o, S = recurrence(y, len(x["q"]))
    grads = torch.autograd.grad((o, S), [y[n] for n in ("q", "k", "v", "g", "beta")], (y["dO"], y["dstate"]))
    return o.detach(), S.detach(), grads


def fla(x):
    from fla.ops.kda.chunk_bwd import chunk_kda_bwd
    from fla.ops.kda.chunk_fwd import chunk_kda_fwd
    q, k, v, g, beta, dO = (x[n][None] for n in ("q", "k", "v", "g", "beta", "dO"))
    shared = {"scale": SCALE, "initial_state": x["state"], "state_v_first": True, "safe_gate": True}

    def forward():
        return chunk_kda_fwd(q=q, k=k, v=v, g=g, beta=beta, output_final_state=True, **shared)

    made = forward()

    def backward():
        return chunk_kda_bwd(q=q, k=k, v=v, g=made[2], beta=beta, Aqk=made[3], Akk=made[4], do=dO, dht=x["dstate"],
                             **shared)

    def results():
        o, S = forward()[:2]
        dq, dk, dv, db, dg = backward()[:5]
        return (o[0], S), [t[0] for t in (dq, dk, dv, dg, db)]
    return forward, backward, results


def cudnn(x):
    from cudnn.linear_attention.hopper import cuda_bwd_host, cuda_host
    N = len(x["q"])
    p = {n: t.data_ptr() for n, t in x.items()}
    o, S = torch.empty_like(x["v"]), torch.empty_like(x["state"])
    grads = [torch.empty_like(x[n]) for n in ("q", "k", "v", "g", "beta")]
    dq, dk, dv, dg, dbeta = (t.data_ptr() for t in grads)
    dstate0 = torch.empty_like(x["state"])
    work = torch.empty(cuda_bwd_host.workspace_bytes(N, H, 1) + 256, device="cuda", dtype=torch.uint8)
    inputs = [p[name] for name in ("q", "k", "v", "g", "beta", "offsets", "state")]

    def stream():
        return torch.cuda.current_stream().cuda_stream

    def forward():
        cuda_host.launch(0, stream(), *inputs, o.data_ptr(), S.data_ptr(), N, 1, H, q_scale=SCALE)

    def backward():
        cuda_bwd_host.launch(0, stream(), work.data_ptr(), p["dO"], *inputs, p["dstate"], dq, dk, dv, dg, dbeta,
                             dstate0.data_ptr(), N, H, 1)

    def results():
        forward(), backward()
        return (o, S), grads
    return forward, backward, results


peers = {"cudnn": cudnn, "fla": fla}
for option, known in ((options.peers, peers), (options.gates, ("slow", "middle", "steep"))):
    if unknown := set(option.split(",")) - set(known):
        raise SystemExit(f"kda.py: {', '.join(sorted(unknown))}, expected of {', '.join(known)}")


def say_failed(name, what, reason):
    """A peer that cannot run a row does not end the others."""
    print(f"{name} failed: {what}:", " ".join(f"{type(reason).__name__}: {reason}".split())[:400], flush=True)


def check(kind, name, x, truth):
    """Outputs, state and gradients of a small problem, as relative errors."""
    (o, S), gradients = peers[name](x)[2]()
    torch.cuda.synchronize()
    errors = [relative(o, truth[0]), relative(S, truth[1]), *(relative(a, b) for a, b in zip(gradients, truth[2]))]
    words = ", ".join(f"{n} {e:.1e}" for n, e in zip(("o", "state", *names), errors))
    print(f"errors, 256 tokens, {kind}, {name}:", words, "" if max(errors) <= 2e-2 else "WRONG", flush=True)


def time_row(kind, N, name, x, want):
    forward, backward, results = peers[name](x)
    error = relative(results()[0][0][:256], want)
    with torch.no_grad():
        times = [f"{ms:.4f}" if ms else "-" for call in (forward, backward) for ms in time_of(call)]
    wrong = "" if error <= 1e-2 else " WRONG"
    print(f"| {kind} | {N} | {name} |", " | ".join(times), f"| {error:.1e}{wrong} |", flush=True)


def main():
    print("PyTorch", torch.__version__, torch.cuda.get_device_name())
    for kind in options.gates.split(","):
        x = problem(256, kind)
        truth = wanted(x)
        for name in options.peers.split(","):
            try:
                check(kind, name, x, truth)
            except Exception as reason:
                say_failed(name, f"256 tokens, {kind}", reason)
    print("| gates | N | peer | forward graph | plain | backward graph | plain | error of 256 tokens |\n|" + "---|" * 8)
    for kind in options.gates.split(","):
        for N in options.sizes:
            x = problem(N, kind)
            with torch.no_grad():
                want = recurrence({n: t.double() if n != "offsets" else t for n, t in x.items()}, 256)[0]
            for name in options.peers.split(","):
                try:
                    time_row(kind, N, name, x, want)
                except Exception as reason:
                    say_failed(name, f"{N} tokens, {kind}", reason)


if __name__ == "__main__":
    main()
