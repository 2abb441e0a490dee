#!/usr/bin/env python3
"""flash-qla, fla and FlashInfer on the 203 configurations of FlashQLA's benchmark, beside bench_flash_qla, row by row.

Optional: needs PyTorch with CUDA and the peers that are asked for: flash-qla (with tilelang), flash-linear-attention,
FlashInfer (with nvidia-cutlass-dsl). Without them it says so and ends.

    ./lab build gpu
    python3 experiments/peers/flash_qla.py                      all rows
    python3 experiments/peers/flash_qla.py forward | backward   these
      --only TEXT       rows whose model and lengths contain it
      --peers LIST      flash-qla (the default), fla, flashinfer, with commas between them
      --ours PROGRAM    build/gpu/bench_flash_qla
      --csv FILE        the table as CSV, too

A peer's outputs are compared first, with the recurrence in Float64 on the first 256 tokens of the first sequence, and
on the last 256 tokens of the last one with those of the first peer that was right. The time of either is the lesser of
the median of graph replays and that of plain calls in a queue. Ours are calls of the public functions, with
deterministic = "run" and with "prefix", where the better one counts and all are printed. Peers' backward passes are
given sums of gates and inverses of their forward passes; ours computes all from the inputs. Peers have tokens before
heads, ours heads before tokens. Kernels of peers are compiled in several processes before anything is timed: minutes.
fla tunes its kernels in the run itself, at the first row of a head count.

FlashInfer has the forward pass alone. It is called as its public chunk_gated_delta_rule, with use_cp="auto": on Hopper
it splits sequences among multiprocessors where heads * sequences are under half of their count. It is given the exact
length of the longest sequence, which saves it blocks. Its gates are linear and its states have v before k: both are
made before the clock starts. A peer that fails at a row says so in a line before the row, and has "-" in it.
"""
import argparse
import csv
import math
import os
import statistics
import subprocess
import sys

from graph_times import time_of

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("passes", nargs="?", choices=["forward", "backward"])
parser.add_argument("--only", default="")
parser.add_argument("--peers", default="flash-qla")
parser.add_argument("--ours", default="build/gpu/bench_flash_qla")
parser.add_argument("--csv")
parser.add_argument("--compile", help=argparse.SUPPRESS)
options = parser.parse_args()
peers = options.peers.split(",")
if unknown := set(peers) - {"flash-qla", "fla", "flashinfer"}:
    raise SystemExit(f"--peers: {', '.join(sorted(unknown))}, expected of flash-qla, fla, flashinfer")
os.environ["FLA_FLASH_QLA"] = "0"  # fla is timed for itself
if options.compile:
    os.environ["FLA_CACHE_RESULTS"] = "0"  # what fla tunes beside other processes is not kept
sys.path.pop(0)  # the folder of this file, which is named as the package
try:
    import torch
    if "flash-qla" in peers:
        import flash_qla
    if "fla" in peers:
        from fla.ops.gated_delta_rule.chunk import chunk_gated_delta_rule_bwd as fla_bwd
        from fla.ops.gated_delta_rule.chunk import chunk_gated_delta_rule_fwd as fla_fwd
    if "flashinfer" in peers:
        from flashinfer.gdn_prefill import chunk_gated_delta_rule as flashinfer_forward
except ImportError as reason:
    raise SystemExit(f"flash_qla.py: not here: {reason}")
if not torch.cuda.is_available():
    raise SystemExit("flash_qla.py: PyTorch finds no GPU")

D, SCALE = 128, 128 ** -0.5
times_of_ours = ("ms", "prefix ms", "replay ms", "prefix replay ms")  # columns of bench_flash_qla


class Row:
    """A configuration, and the inputs that FlashQLA's benchmark gives it."""

    def __init__(self, line):
        self.given, self.model, self.lengths = line["pass"], line["model"], line["lengths"]
        self.heads_k, self.heads = int(line["heads of k"]), int(line["heads of v"])
        self.tokens = [int(n) for n in line["tokens"].split()]
        self.line = line
        self.last = None  # the outputs of the last 256 tokens, of the first peer whose first ones are right

    def inputs(self):
        torch.manual_seed(1)
        lengths, h, hk = self.tokens, self.heads, self.heads_k
        N, n = sum(lengths), len(lengths)

        def normal(*shape, dtype=torch.bfloat16):
            return torch.randn(*shape, device="cuda", dtype=dtype)

        def unit(x):
            return (x.float() / x.float().norm(dim=-1, keepdim=True)).to(x.dtype)

        x = {"q": unit(normal(1, N, hk, D)), "k": unit(normal(1, N, hk, D)), "v": normal(1, N, h, D)}
        x["g"] = torch.nn.functional.logsigmoid(normal(1, N, h, dtype=torch.float32)) / 16
        x["g"][:, :, 3::4] = 0
        x["beta"] = normal(1, N, h, dtype=torch.float32).sigmoid()
        x["state"] = normal(n, h, D, D, dtype=torch.float32)
        x["dO"], x["dstate"] = normal(1, N, h, D), normal(n, h, D, D, dtype=torch.float32) / 8
        offsets = [0]
        for length in lengths:
            offsets.append(offsets[-1] + length)
        x["offsets"], x["longest"] = torch.tensor(offsets, device="cuda", dtype=torch.int32), max(lengths)
        return x


def forward_of(peer, x):
    """A call of the peer's forward pass, and which of its results the outputs are."""
    shared = {"scale": SCALE, "initial_state": x["state"], "output_final_state": True, "cu_seqlens": x["offsets"]}
    inputs = [x[name] for name in ("q", "k", "v", "g", "beta")]
    if peer == "flashinfer":
        q, k, v, g, beta = (tensor[0] for tensor in inputs)
        gate, shared["initial_state"] = g.exp(), x["state"].transpose(-1, -2).contiguous()
        return lambda: flashinfer_forward(q, k, v, gate, beta, max_seqlen=x["longest"], **shared), 0
    if peer == "flash-qla":
        return lambda: flash_qla.chunk_gated_delta_rule_fwd(*inputs, output_h=False, auto_cp=True, **shared), 2
    return lambda: fla_fwd(*inputs, **shared), 1


def backward_of(peer, x):
    made = forward_of(peer, x)[0]()
    q, k, v, beta = (x[name] for name in ("q", "k", "v", "beta"))
    if peer == "flash-qla":
        return lambda: flash_qla.chunk_gated_delta_rule_bwd(
            q, k, v, made[0], beta, made[1], x["dO"], x["dstate"], scale=SCALE, initial_state=x["state"],
            cu_seqlens=x["offsets"], auto_cp=True)
    return lambda: fla_bwd(q, k, v, made[0], beta, made[2], SCALE, x["state"], x["dO"], x["dstate"],
                           cu_seqlens=x["offsets"])


def error_of(outputs, x, tokens=256):
    """Of the first and the last head, relative to the recurrence in Float64."""
    h, hk = x["v"].shape[2], x["q"].shape[2]
    tokens = min(tokens, int(x["offsets"][1]))
    worst = 0.0
    for head in (0, h - 1):
        q, k = (x[name][0, :tokens, head * hk // h].double() for name in ("q", "k"))
        v, g, beta = x["v"][0, :tokens, head].double(), x["g"][0, :tokens, head].double(), x["beta"][0, :tokens, head]
        S = x["state"][0, head].double()
        want = []
        for t in range(tokens):
            S = S * g[t].exp()
            S = S + torch.outer(k[t], beta[t].double() * (v[t] - k[t] @ S))
            want.append(SCALE * (q[t] @ S))
        want = torch.stack(want)
        error = ((outputs[0, :tokens, head].double() - want).norm() / want.norm()).item()
        worst = error if not error <= worst else worst  # NaN stays
    return worst


def run(peer, row):
    x = row.inputs()
    call, place = forward_of(peer, x)
    outputs = call()[place].view_as(x["v"])
    error, last = error_of(outputs, x), outputs[0, -256:].float()
    if row.last is None:
        row.last = last if error <= 1e-2 else None
    else:
        apart = ((last - row.last).norm() / row.last.norm()).item()
        error = apart if not apart <= error else error
    if row.given == "backward":
        call = backward_of(peer, x)
    return error, *time_of(call)


def compile_all(rows):
    """Every row once, the rows of a model in a process of their own; what they compile is kept on disk.
    FlashInfer keeps nothing there: it compiles in the run, in seconds."""
    kept = ",".join(peer for peer in peers if peer != "flashinfer")
    models = list(dict.fromkeys((row.given, row.model) for row in rows)) if kept else []
    started = [subprocess.Popen([sys.executable, __file__, given, "--only", model + " ", "--peers", kept,
                                 "--compile", options.csv_of_ours]) for given, model in models]
    for process, (given, model) in zip(started, models):
        if process.wait() != 0:
            print(f"{model}, {given}: compiling ended with {process.returncode}", flush=True)


def read_rows(file):
    with open(file) as lines:
        next(lines)  # the GPU
        rows = [Row(line) for line in csv.DictReader(lines)]
    rows = [row for row in rows if not options.passes or row.given == options.passes]
    return [row for row in rows if options.only in f"{row.model} {row.lengths}"]


def main():
    if options.compile:
        for row in read_rows(options.compile):
            for peer in peers:
                x = row.inputs()
                (forward_of(peer, x)[0] if row.given == "forward" else backward_of(peer, x))()
                torch.cuda.synchronize()
        return 0
    options.csv_of_ours = (options.csv or "flash_qla.csv") + ".ours"
    with open(options.csv_of_ours, "w") as file:
        words = [options.ours, options.passes or "", options.only]
        if subprocess.run(words, stdout=file).returncode != 0:
            print(f"{options.ours} ended with an error, or a row was wrong: {options.csv_of_ours}")
    with open(options.csv_of_ours) as file:
        print(next(line for line in file).strip())
        rows = read_rows(options.csv_of_ours)
    compile_all(rows)
    print(f"PyTorch {torch.__version__}", *(f"{x} {sys.modules[x].__version__}"
                                           for x in ("flash_qla", "tilelang", "fla", "flashinfer", "cutlass")
                                           if x in sys.modules), torch.cuda.get_device_name())
    table, ratios = [], []
    print("| pass | model | lengths | ours | prefix | graph | prefix graph |",
          *(f"{p} | plain | error |" for p in peers), "ratio |")
    print("|" + "---|" * (8 + 3 * len(peers)))
    for row in rows:
        ours = [float(row.line[name]) for name in times_of_ours if row.line[name] != "-"]
        cells, best = [], math.inf
        for peer in peers:
            cells += ["-", "-", "-"]
            if peer == "flashinfer" and row.given == "backward":
                continue
            try:
                error, replay, plain = run(peer, row)
            except Exception as reason:  # a peer that cannot run a row does not end the others
                words = " ".join(f"{type(reason).__name__}: {reason}".split())
                print(f"{peer} failed: {row.given}, {row.model}, {row.lengths}: {words[:400]}", flush=True)
                continue
            cells[-3:] = [f"{replay:.4f}" if replay else "-", f"{plain:.4f}", f"{error:.1e}"]
            if not error <= 1e-2:
                print(f"{peer} is wrong: {row.given}, {row.model}, {row.lengths}: error {error:.1e}", flush=True)
                continue
            time = min(plain, replay or math.inf)
            ratios.append((row.given, peer, time / min(ours)))
            best = min(best, time)
        row.last = None
        ratio = best / min(ours)
        ratios += [(row.given, "all", ratio)] if math.isfinite(ratio) else []
        text = f"{ratio:.2f}" if ratio >= 1 else f"**{ratio:.2f}**"
        line = [row.given, row.model, row.lengths, *(row.line[name] for name in times_of_ours), *cells]
        table.append([*line, f"{ratio:.3f}"])
        print("|", " | ".join([*line, text]), "|", flush=True)
    for given in ("forward", "backward"):
        for peer in (*peers, "all") if len(peers) > 1 else ("all",):
            of = [ratio for *name, ratio in ratios if name == [given, peer]]
            if of:
                mean = math.exp(statistics.fmean(math.log(x) for x in of))
                beside = "" if peer == "all" else f", beside {peer}"
                print(f"{given}{beside}: {len(of)} rows, ours fastest in {sum(x >= 1 for x in of)}, "
                      f"least ratio {min(of):.2f}, geometric mean {mean:.2f}")
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            columns = ["pass", "model", "lengths", "ours", "ours prefix", "ours graph", "ours prefix graph"]
            for peer in peers:
                columns += [f"{peer} graph", f"{peer} plain", f"{peer} error"]
            csv.writer(file).writerows([[*columns, "ratio"], *table])
    return 0


if __name__ == "__main__":
    sys.exit(main())
