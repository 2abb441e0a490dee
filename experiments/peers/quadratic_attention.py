#!/usr/bin/env python3
"""The quadratic form of causal linear attention by NumPy or PyTorch, the controls of experiments/lib/controls.lua, which
runs this where python3 has them.

    python3 experiments/peers/quadratic_attention.py numpy|pytorch cpu|gpu SECONDS BATCH HEADS WIDTH N [DECAY,DECAY,...]

O = (mask of C Bᵀ) V in Float32, a head after the other, normal inputs; with a decay of each head, rows and columns are
scaled by its powers, which Float32 holds up to 2048 tokens of RetNet's decays. Prints the median, both quartiles and
the number of times in at least SECONDS, three calls or more after a first one, and the relative error of 64 tokens to
the recurrence in Float64.
"""
import sys
import time

try:
    import numpy as np
except ImportError:
    raise SystemExit("no NumPy")

package, device = sys.argv[1:3]
seconds, batch, heads, width, length = float(sys.argv[3]), *map(int, sys.argv[4:8])
decays = [float(x) for x in sys.argv[8].split(",")] if len(sys.argv) > 8 else [1.0] * heads
random = np.random.default_rng(1)

if package == "numpy":
    if device != "cpu":
        raise SystemExit("NumPy runs on a CPU alone")
    tril, empty_like = np.tril, np.empty_like

    def here(array):
        return array

    def finish():
        pass
else:
    try:
        import torch
    except ImportError:
        raise SystemExit("no PyTorch")
    place = torch.device("cuda" if device == "gpu" else "cpu")
    tril, empty_like = torch.tril, torch.empty_like
    torch.backends.cuda.matmul.allow_tf32 = False

    def here(array):
        return torch.from_numpy(array).to(place)

    def finish():
        if device == "gpu":
            torch.cuda.synchronize()


def normal(n):
    return random.standard_normal((batch, heads, n, width)).astype(np.float32)


def powers_of(n):
    return [here((decay ** np.arange(n)).astype(np.float32)[:, None]) for decay in decays]


def attention(B, C, V, powers, O):
    for h, decay in enumerate(decays):
        for b in range(batch):
            rows, columns = (B[b, h], C[b, h]) if decay == 1 else (B[b, h] * powers[h], C[b, h] / powers[h])
            O[b, h] = tril(rows @ columns.T) @ V[b, h]


def recurrence(B, C, V):
    O, S = np.empty(V.shape), np.zeros((batch, heads, width, width))
    for t in range(B.shape[2]):
        S = np.array(decays)[:, None, None] * S + C[:, :, t, :, None].astype(float) * V[:, :, t, None, :]
        O[:, :, t] = np.einsum("bhr,bhrd->bhd", B[:, :, t].astype(float), S)
    return O


few = [normal(64) for _ in range(3)]
expected = recurrence(*few)
few = [here(x) for x in few]
O = empty_like(few[2])
attention(*few, powers_of(64), O)
got = O if package == "numpy" else O.cpu().numpy()
error = np.linalg.norm(got - expected) / np.linalg.norm(expected)

B, C, V = (here(normal(length)) for _ in range(3))
powers, O = powers_of(length), empty_like(V)
attention(B, C, V, powers, O)
finish()
times = []
while len(times) < 15 and (len(times) < 3 or sum(times) < seconds):
    start = time.perf_counter()
    attention(B, C, V, powers, O)
    finish()
    times.append(time.perf_counter() - start)
print(*np.quantile(times, [0.5, 0.25, 0.75]), len(times), error)
