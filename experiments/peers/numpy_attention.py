#!/usr/bin/env python3
"""NumPy's quadratic form of causal linear attention, the control of experiments/lib/latency.lua, which runs this where
python3 has NumPy.

    python3 experiments/peers/numpy_attention.py SECONDS BATCH HEADS WIDTH N [DECAY,DECAY,...]

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

seconds, batch, heads, width, length = float(sys.argv[1]), *map(int, sys.argv[2:6])
decays = [float(x) for x in sys.argv[6].split(",")] if len(sys.argv) > 6 else [1.0] * heads
random = np.random.default_rng(1)


def normal(n):
    return random.standard_normal((batch, heads, n, width)).astype(np.float32)


def attention(B, C, V, O):
    n = B.shape[2]
    for h, decay in enumerate(decays):
        powers = (decay ** np.arange(n)).astype(np.float32)[:, None]
        for b in range(batch):
            rows, columns = (B[b, h], C[b, h]) if decay == 1 else (B[b, h] * powers, C[b, h] / powers)
            O[b, h] = np.tril(rows @ columns.T) @ V[b, h]


def recurrence(B, C, V):
    O, S = np.empty(V.shape), np.zeros((batch, heads, width, width))
    for t in range(B.shape[2]):
        S = np.array(decays)[:, None, None] * S + C[:, :, t, :, None].astype(float) * V[:, :, t, None, :]
        O[:, :, t] = np.einsum("bhr,bhrd->bhd", B[:, :, t].astype(float), S)
    return O


few = [normal(64) for _ in range(3)]
O, expected = np.empty_like(few[2]), recurrence(*few)
attention(*few, O)
error = np.linalg.norm(O - expected) / np.linalg.norm(expected)

B, C, V = (normal(length) for _ in range(3))
O = np.empty_like(V)
attention(B, C, V, O)
times = []
while len(times) < 15 and (len(times) < 3 or sum(times) < seconds):
    start = time.perf_counter()
    attention(B, C, V, O)
    times.append(time.perf_counter() - start)
print(*np.quantile(times, [0.5, 0.25, 0.75]), len(times), error)
