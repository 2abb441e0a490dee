#!/usr/bin/env python3
"""NumPy on the rows of experiments/blocks.lua, which runs this where python3 has NumPy: prints "name<tab>milliseconds".

    python3 experiments/peers/numpy_blocks.py SECONDS N "ROW"...

A row is "two-sided gates", "delta rule", an operation "A += B" ..., or "FORMULA SHAPE SHAPE ..." for einsum. Each is its
fastest call in so many seconds, after a first one. Results of einsum are made contiguous, as the library's are.
"""
import sys
import time

try:
    import numpy as np
except ImportError as reason:
    raise SystemExit(f"numpy_blocks.py: not here: {reason}")

seconds, length, rows = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
h, d = 8, 64
random = np.random.default_rng(1)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def fastest(call):
    call()
    least, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        least = min(least, now - start)
        if now > end:
            return 1e3 * least


q, k, v = (normal(h, length, d) for _ in range(3))
k /= np.linalg.norm(k, axis=-1, keepdims=True)
a, b = (random.uniform(0.9, 1, (h, length, d)).astype(np.float32) for _ in range(2))
beta = random.uniform(0, 1, (h, length, 1)).astype(np.float32)


def recurrence(update):
    S, o = np.zeros((h, d, d), np.float32), np.empty((h, length, d), np.float32)
    for t in range(length):
        update(S, t)
        o[:, t] = (q[:, t, None, :] @ S)[:, 0]
    return o


def two_sided(S, t):
    S *= a[:, t, :, None]
    S *= b[:, t, None, :]
    S += k[:, t, :, None] * v[:, t, None, :]


def delta(S, t):
    u = v[:, t] - (k[:, t, None, :] @ S)[:, 0]
    S += k[:, t, :, None] * (beta[:, t] * u)[:, None, :]


A, B, w = normal(1000, 1000), normal(1000, 1000), np.sign(normal(1000))  # so that A stays finite
known = {
    "two-sided gates": lambda: recurrence(two_sided),
    "delta rule": lambda: recurrence(delta),
    "A += B": lambda: np.add(A, B, out=A),
    "A += B / 2": lambda: np.add(A, np.float32(0.5) * B, out=A),
    "A *= w": lambda: np.multiply(A, w, out=A),
    "cumprod of rows": lambda: np.cumprod(B, axis=0),
}
for row in rows:
    call = known.get(row)
    if call is None:
        formula, *shapes = row.split()
        operands = [normal(*map(int, shape.split("x"))) for shape in shapes]
        call = lambda: np.ascontiguousarray(np.einsum(formula, *operands, optimize=True))
    print(f"{row}\t{fastest(call):.4f}")
