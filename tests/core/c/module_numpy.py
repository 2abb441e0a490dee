"""Holds the Python module to plain NumPy. The folder of the module is the argument."""

import gc
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

sys.path.insert(0, sys.argv[1])
import causeway  # noqa: E402

random = np.random.default_rng(1)


wrong = causeway.ArgumentError


def refuses(kind, sentence, f, *arguments, **options):
    try:
        f(*arguments, **options)
    except kind as error:
        assert sentence in str(error), error
        return
    raise AssertionError(f"not refused: {sentence}")


def gated(q, k, v, g):
    """The gated recurrence, token by token, in Float64."""
    q, k, v, g = (x.astype("f8") for x in (q, k, v, g))
    S = np.zeros(q.shape[:2] + (q.shape[3], v.shape[3]))
    O = np.zeros(v.shape)
    for t in range(q.shape[2]):
        S = np.exp(g[:, :, t, None, None]) * S + k[:, :, t, :, None] * v[:, :, t, None, :]
        O[:, :, t] = np.einsum("bhr,bhrd->bhd", q[:, :, t], S)
    return O, S


def close(x, y, tolerance):
    return np.abs(x - y).max() <= tolerance * np.abs(y).max()


def inputs(kind, b=2, h=3, N=70, r=5, d=7):
    q, k = (random.uniform(-1, 1, (b, h, N, r)).astype(kind) for _ in "qk")
    v, dO = (random.uniform(-1, 1, (b, h, N, d)).astype(kind) for _ in "vo")
    return q, k, v, -random.random((b, h, N)).astype(kind), dO


q, k, v, g, dO = inputs("f8")
O, S = causeway.linear_attention(q, k, v, update="gated", log_decay=g)
wanted, state = gated(q, k, v, g)
assert close(O, wanted, 1e-12) and close(S, state, 1e-12)

# Types: what comes out has the type of q, the state that of the computation.
for kind, tolerance in (("f4", 1e-4), ("f2", 1e-2)):
    typed = inputs(kind)
    O, S = causeway.linear_attention(*typed[:3], update="gated", log_decay=typed[3].astype("f4"))
    assert O.dtype == kind and S.dtype == "f4"
    assert close(O.astype("f8"), gated(*typed[:4])[0], tolerance)

# Memory: views with any strides, also of no element and of records; what is returned outlives what made it.
turned = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v, g)]
O, S = causeway.linear_attention(*turned[:3], update="gated", log_decay=turned[3], layout="bnhd")
assert O.shape == (2, 70, 3, 7) and close(O.swapaxes(1, 2), wanted, 1e-12)
backwards = np.ascontiguousarray(q[..., ::-1])[..., ::-1]
assert np.array_equal(causeway.linear_attention(backwards, k, v)[0], causeway.linear_attention(q, k, v)[0])
record = np.zeros(q.shape, [("tag", "i1"), ("q", "f8")])
record["q"] = q
assert np.array_equal(causeway.linear_attention(record["q"], k, v)[0], causeway.linear_attention(q, k, v)[0])
assert causeway.linear_attention(q[:, :, :0], k[:, :, :0], v[:, :, :0])[0].shape == (2, 3, 0, 7)
kept = [causeway.linear_attention(q * i, k, v)[0] for i in range(20)]
gc.collect()
assert all(close(x, i * kept[1], 1e-12) for i, x in enumerate(kept) if i)
part = kept[3][1, 2]
copy = part.copy()
del kept
gc.collect()
assert np.array_equal(part, copy)
part[0] = 1  # the caller's own

# Whatever speaks DLPack.
class Foreign:
    def __dlpack__(self, **_):
        return q.__dlpack__()

    def __dlpack_device__(self):
        return q.__dlpack_device__()


assert np.array_equal(causeway.linear_attention(Foreign(), k, v)[0], causeway.linear_attention(q, k, v)[0])
same = causeway.linear_attention(Foreign(), k, v, layout="bnhd")[0]
assert np.array_equal(same, causeway.linear_attention(q, k, v, layout="bnhd")[0])

# Steps, on a copy of the state or on the state itself.
S = np.zeros((2, 3, 5, 7))
for t in range(70):
    at = slice(t, t + 1)
    token, options = [x[:, :, at] for x in (q, k, v)], {"update": "gated", "log_decay": g[:, :, at]}
    O, after = causeway.linear_attention_step(*token, S, **options)
    assert not np.array_equal(after, S)
    again, same = causeway.linear_attention_step(*token, S, **options, inplace=True)
    assert same is S and np.array_equal(O, again) and np.array_equal(after, S)
    assert close(O, wanted[:, :, at], 1e-10)
assert close(S, state, 1e-12)

# What a step writes in place has memory of its own: no element is two of the state's, none is read as an input.
step = causeway.linear_attention_step
for strides in ((0, 0, 56, 8), (280, 0, 56, 8), (8, 800, 280, 40)):
    shared = np.lib.stride_tricks.as_strided(np.zeros(500), S.shape, strides)
    refuses(wrong, "expected elements that share no memory", step, *token, shared, inplace=True)
    step(*token, shared)
pool = np.zeros(2 * 3 * 5 * 7 + 2 * 3 * 5)
state = pool[:210].reshape(2, 3, 5, 7)
step(pool[210:].reshape(2, 3, 1, 5), *token[1:], state, inplace=True)
for name, arrays in (("q", (pool[:30], None)), ("k", (None, pool[209:239])), ("q", (pool[100:130], None))):
    first = [x if y is None else y.reshape(2, 3, 1, 5) for x, y in zip(token, arrays)]
    refuses(wrong, f"{name}: shares memory with state", step, *first, token[2], state, inplace=True)
    step(*first, token[2], state)
gate = state[:, :, 0, :1]
refuses(wrong, "log_decay: shares", step, *token, state, update="gated", log_decay=gate, inplace=True)
columns = np.zeros((2, 3, 5, 8))  # q lies between the rows of the state, and is not of them
step(columns[..., 7].reshape(2, 3, 1, 5), *token[1:], columns[..., :7], inplace=True)
turned_state = np.zeros((2, 3, 7, 5)).swapaxes(2, 3)[:, ::-1]
assert np.array_equal(step(*token, turned_state, inplace=True)[0], step(*token, np.zeros(S.shape))[0])
assert turned_state.any()

# Gradients, against differences.
def slope(f, x, at):
    width = 1e-6
    up, down = x.copy(), x.copy()
    up[at] += width
    down[at] -= width
    return ((f(up) - f(down)) * dO).sum() / (2 * width)


def gated_output(k, g):
    return causeway.linear_attention(q, k, v, update="gated", log_decay=g)[0]


found = causeway.linear_attention_grad(q, k, v, dO, update="gated", log_decay=g)
at = (1, 2, 40)
assert abs(found["dk"][at][3] - slope(lambda x: gated_output(x, g), k, at + (3,))) < 1e-6
assert abs(found["dlog_decay"][at] - slope(lambda x: gated_output(k, x), g, at)) < 1e-6
assert "dbeta" not in found and found["dstate"].shape == S.shape

mask = np.tril(0.9 ** (np.arange(70)[:, None] - np.arange(70)))
exact = np.einsum("bhnm,bhmd->bhnd", np.einsum("bhnr,bhmr->bhnm", q, k) * mask, v)
O, S = causeway.causal_linear_attention(q, k, v, method="fleet", decay=0.9, return_state=True)
assert close(O, exact, 1e-12)
for decay in ([0.9, 0.9, 0.9], np.array(0.9), np.full(3, 0.9)):
    assert close(causeway.causal_linear_attention(q, k, v, decay=decay), exact, 1e-12)
found = causeway.causal_linear_attention_grad(q, k, v, dO, decay=0.9)
assert len(found["ddecay"]) == 1 and "dstate" not in found
up, down = (causeway.causal_linear_attention(q, k, v, decay=0.9 + e) for e in (1e-6, -1e-6))
assert abs(found["ddecay"][0] - ((up - down) * dO).sum() / 2e-6) < 1e-5 * abs(found["ddecay"][0])

scores = np.einsum("bhnr,bhmr->bhnm", q, k) / np.sqrt(5)
scores[:, :, np.triu(np.ones((70, 70), bool), 1)] = -np.inf
total = np.exp(scores).sum(-1)
exact = np.einsum("bhnm,bhmd->bhnd", np.exp(scores) / total[..., None], v)
O, lse = causeway.softmax_attention(q, k, v, return_lse=True)
assert close(O, exact, 1e-12) and close(lse, np.log(total), 1e-12)
assert not close(causeway.softmax_attention(q, k, v, causal=False), exact, 1e-2)
found = causeway.softmax_attention_grad(q, k, v, dO, O=O, lse=lse)
assert abs(found["dv"][at][3] - slope(lambda x: causeway.softmax_attention(q, k, x), v, at + (3,))) < 1e-6

B, C = causeway.lowrank("svd", q, k, rank=70)
assert close(np.einsum("bhnr,bhmr->bhnm", B, C), np.exp(np.einsum("bhnr,bhmr->bhnm", q, k) / np.sqrt(5)), 1e-9)
one, two = (causeway.lowrank("favor+", q, k, rank=8, seed=s)[0] for s in (1, 1))
assert np.array_equal(one, two)
assert not np.array_equal(one, causeway.lowrank("favor+", q, k, rank=8, seed=2)[0])

# Pools of states, checkpoints, packed sequences: what separate calls give.
one = q[:1], k[:1], v[:1]
parts = [[x[:, :, a:b] for x in one] for a, b in ((0, 30), (30, 70))]
pool = random.uniform(-1, 1, (4, 3, 5, 7))
alone = [causeway.linear_attention(*part, state=pool[slot : slot + 1]) for part, slot in zip(parts, (3, 1))]
packed = {"cu_seqlens": [0, 30, 70], "state": pool, "state_indices": [3, 1]}
O, S = causeway.linear_attention(*one, **packed)
assert np.array_equal(O, np.concatenate([x[0] for x in alone], 2))
assert np.array_equal(S, np.concatenate([x[1] for x in alone]))
written = pool.copy()
O, same = causeway.linear_attention(*one, **{**packed, "state": written}, inplace=True)
assert same is written and np.array_equal(written[[3, 1]], S) and np.array_equal(written[[0, 2]], pool[[0, 2]])
turned_pool = np.ascontiguousarray(pool.swapaxes(2, 3)).swapaxes(2, 3)  # not where the library can read it
causeway.linear_attention(*one, **{**packed, "state": turned_pool}, inplace=True)
assert np.array_equal(turned_pool, written)
O, S, checkpoints = causeway.linear_attention(*one, checkpoint_every=20)
assert checkpoints.shape == (3, 3, 5, 7)
assert close(checkpoints[1:2], causeway.linear_attention(*(x[:, :, :40] for x in one))[1], 1e-12)
refuses(wrong, "inplace: true, but no state", causeway.linear_attention, *one, inplace=True)
refuses(wrong, "state_indices[0]: -1", causeway.linear_attention, *one, state=pool, state_indices=[-1])
refuses(wrong, "state_indices", causeway.linear_attention, *one, state=pool, state_indices=[4])
refuses(wrong, "q: shares memory with state", causeway.linear_attention, pool[:1], pool[:1], pool[:1, :, :, :7],
        state=pool[:1, :, :, :], inplace=True)

causal = {"method": "fleet", "decay": 0.9}
O, S = causeway.causal_linear_attention(*one, cu_seqlens=[0, 30, 70], return_state=True, **causal)
for part, end in zip(parts, ((0, 30), (30, 70))):
    assert np.array_equal(O[:, :, end[0] : end[1]], causeway.causal_linear_attention(*part, **causal))
O, S, checkpoints = causeway.causal_linear_attention(*one, checkpoint_every=35, return_state=True, **causal)
assert checkpoints.shape == (2, 3, 5, 7) and np.array_equal(checkpoints[1:], S)
refuses(wrong, "deterministic", causeway.causal_linear_attention, *one, deterministic="always")

# Heads of B that share those of C and V.
few = [x[:, :1] for x in (k, v)]
O, S = causeway.causal_linear_attention(q, *few, return_state=True, **causal)
each = causeway.causal_linear_attention(q, *(np.repeat(x, 3, axis=1) for x in few), **causal)
assert np.array_equal(O, each) and S.shape == (2, 1, 5, 7)
found = causeway.causal_linear_attention_grad(q, *few, dO, decay=0.9)
assert found["dB"].shape == q.shape and found["dV"].shape == few[1].shape
O, lse = causeway.softmax_attention(*one, cu_seqlens=[0, 30, 70], return_lse=True)
assert np.array_equal(O[:, :, 30:], causeway.softmax_attention(*parts[1]))

# A step in a pool, and the state of one slot alone.
token = [x[:, :, :1] for x in one]
pool_after = causeway.linear_attention_step(*token, pool, state_indices=[2])[1]
assert np.array_equal(pool_after[2:3], causeway.linear_attention_step(*token, pool[2:3])[1])
assert np.array_equal(pool_after[[0, 1, 3]], pool[[0, 1, 3]])

# The general rule is the gated one where nothing is taken out, and the delta rule where it is.
a = np.exp(g)
O, S = causeway.general_linear_attention(q, k, v, a=a)
assert close(O, wanted, 1e-10) and close(S, gated(q, k, v, g)[1], 1e-10)
beta = random.random((2, 3, 70, 1))
O = causeway.general_linear_attention(q, k, beta * v, a=a, u=beta * a[..., None] * k, w=k)[0]
delta = {"update": "gated_delta", "log_decay": g, "beta": beta[..., 0]}
assert close(O, causeway.linear_attention(q, k, v, **delta)[0], 1e-8)
found = causeway.general_linear_attention_grad(q, k, v, dO, a=a)
at = (1, 2, 40)
general = lambda x: causeway.general_linear_attention(q, k, v, a=x)[0]  # noqa: E731
assert abs(found["da"][at] - slope(general, a, at)) < 1e-5 and "du" not in found
state = np.zeros((2, 3, 5, 7))
for t in range(3):
    step_of = [x[:, :, t : t + 1] for x in (q, k, v)]
    O, same = causeway.general_linear_attention_step(*step_of, state, a=a[:, :, t : t + 1], inplace=True)
    assert same is state and close(O, wanted[:, :, t : t + 1], 1e-10)
refuses(wrong, "w", causeway.general_linear_attention, q, k, v, u=k)

# Around it.
x = random.uniform(-1, 1, (2, 9, 4))
weight = random.uniform(-1, 1, (4, 3))
y, last = causeway.short_convolution(x, weight)
padded = np.concatenate([np.zeros((2, 2, 4)), x], 1)
assert close(y, sum(padded[:, i : i + 9] * weight[:, i] for i in range(3)), 1e-12) and np.array_equal(last, x[:, -2:])
assert close(causeway.short_convolution(x, weight, activation="silu")[0], y / (1 + np.exp(-y)), 1e-12)
assert close(causeway.l2norm(x), x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-6), 1e-12)
# Rows of length one within the call, its gradient and a step.
unit = [causeway.l2norm(q), causeway.l2norm(k), v]
of_length_one = lambda x: causeway.linear_attention(x, k, v, qk_l2norm=True)[0]  # noqa: E731
assert np.array_equal(of_length_one(q), causeway.linear_attention(*unit)[0])
found = causeway.linear_attention_grad(q, k, v, dO, qk_l2norm=True)
assert abs(found["dq"][(*at, 1)] - slope(of_length_one, q, (*at, 1))) < 1e-5
first = [x[:, :, :5] for x in (q, k, v)], [x[:, :, :5] for x in unit]
stepped = causeway.linear_attention_step(*first[0], np.zeros((2, 3, 5, 7)), qk_l2norm=True)[0]
assert np.array_equal(stepped, causeway.linear_attention_step(*first[1], np.zeros((2, 3, 5, 7)))[0])
gate, scales = random.uniform(-1, 1, x.shape), random.uniform(-1, 1, 4)
plain_norm = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scales * gate / (1 + np.exp(-gate))
assert close(causeway.rms_norm(x, weight=scales, gate=gate), plain_norm, 1e-12)
rate, bias = random.uniform(-1, 1, 3), random.uniform(-1, 1, 3)
plain_gate = -np.exp(rate)[:, None] * np.log1p(np.exp(g + bias[:, None]))
assert close(causeway.decay_gate(g, rate, dt_bias=bias), plain_gate, 1e-12)
refuses(wrong, "activation", causeway.short_convolution, x, weight, activation="relu")
refuses(wrong, "A_log", causeway.decay_gate, g, rate[:2])

# An array on a GPU says on which stream it is made: there the call is queued, and its result says so. Without a GPU the
# call is only seen.
arrays = causeway._arrays
seen_streams = []
arrays.LIBRARY.causeway_gpu_seen = None
if not hasattr(arrays.LIBRARY, "causeway_gpu_linear_attention"):
    arrays.LIBRARY.causeway_gpu_linear_attention = None


class Foreign:
    def __init__(self, told):
        self.__cuda_array_interface__ = {"version": 3, "data": (4096, False), "shape": (2, 3), "typestr": "<f4", **told}


def stream_of(*told):
    result = arrays.Tensor(None, 0, 2)
    arrays.call_where("seen", (), [arrays.required("q", Foreign(each)) for each in told], [result])
    return seen_streams.pop(), arrays.DeviceArray(result, "<f4").__cuda_array_interface__["stream"]


call, arrays.call = arrays.call, lambda name, *arguments: seen_streams.append(arguments[-1])
assert stream_of({}, {"stream": None}) == stream_of({"stream": 1}, {}) == (None, 1)
assert stream_of({"stream": 2}, {}) == (2, 2) and stream_of({"stream": 4096}, {"stream": 4096}) == (4096, 4096)
refuses(wrong, "arrays of the streams 1, 4096, expected one stream", stream_of, {"stream": 1}, {"stream": 4096})
refuses(wrong, "q: stream 0", stream_of, {"stream": 0})
arrays.call = call

# Ctrl-C ends a call in the middle, and Python does for it what it does elsewhere; in another thread it waits for Python.
def interrupted(handler, expected):
    """How long a call goes on that a SIGINT comes into after a tenth of a second."""
    before = signal.signal(signal.SIGINT, handler)
    large = np.ones((1, 8, 1 << 16, 64), "f4")
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        while True:
            causeway.softmax_attention(large, large, large)
    except expected:
        return time.monotonic() - begin
    finally:
        signal.signal(signal.SIGINT, before)


seen, found = [], signal.getsignal(signal.SIGINT)  # ignored where a shell started this in the background
assert interrupted(signal.default_int_handler, KeyboardInterrupt) < 5
assert interrupted(lambda *_: seen.append(1), causeway.InterruptedCallError) < 5 and seen == [1]
assert signal.getsignal(signal.SIGINT) is found
assert np.array_equal(causeway.linear_attention(q, k, v)[0], causeway.linear_attention(q, k, v)[0])
with ThreadPoolExecutor(1) as other:
    assert other.submit(causeway.linear_attention, q, k, v).result()[0].shape == v.shape

# From several threads at once, each with its own last error.
def busy(i):
    for _ in range(20):
        assert np.array_equal(causeway.linear_attention(q * i, k, v)[0], alone[i])
        short = k[:, :, : 60 + i]
        refuses(ValueError, f"length {60 + i}, expected 70", causeway.linear_attention, q, short, v)
    return True


alone = [causeway.linear_attention(q * i, k, v)[0] for i in range(4)]
with ThreadPoolExecutor(4) as pool:
    assert all(pool.map(busy, range(4)))

# Names, threads, and the sentences of refusals.
assert "fleet" in causeway.names("methods") and "favor+" in causeway.names("lowrank")
causeway.set_threads(2)
assert causeway.threads() == 2
assert causeway.__version__.count(".") == 2
assert issubclass(wrong, ValueError) and issubclass(causeway.OutOfMemoryError, MemoryError)
refuses(wrong, "k: length 69, expected 70", causeway.linear_attention, q, k[:, :, :69], v)
refuses(wrong, "q: int64, expected float32", causeway.linear_attention, q.astype("i8"), k, v)
refuses(wrong, "q: list, expected an array", causeway.linear_attention, q.tolist(), k, v)
refuses(wrong, "k: 5 dimensions, expected at most 4", causeway.linear_attention, q, k[None], v)
refuses(wrong, "byte order", causeway.linear_attention, q.astype(">f8"), k, v)
refuses(wrong, "chunk: 0, expected 1 or more", causeway.linear_attention, q, k, v, chunk=0)
refuses(wrong, "layout: 'bhdn'", causeway.linear_attention, q, k, v, layout="bhdn")
for sentence, arrays, gate in (
    ("layout: 'bnhd', but the first array is (3, 70, 5)", (q[0], k[0], v[0]), None),
    ("layout: 'bnhd', but an array is (3, 70)", turned[:3], g[0]),
    ("q: list, expected an array", (q.tolist(), k, v), None),
):
    refuses(wrong, sentence, causeway.linear_attention, *arrays, log_decay=gate, layout="bnhd")
refuses(wrong, "gated_delta", causeway.linear_attention, q, k, v, update="gated-delta")
refuses(wrong, "update: 3, expected a name", causeway.linear_attention, q, k, v, update=3)
refuses(wrong, r"update: 'linear\x00er', expected a name", causeway.linear_attention, q, k, v, update="linear\0er")
refuses(wrong, "list: ", causeway.names, "modules")
refuses(wrong, "k: NoneType, expected an array", causeway.linear_attention, q, None, v)
for options, sentence in (
    ({"chunk": 2**64 + 5}, "chunk: 18446744073709551621, expected 9223372036854775807 or less"),
    ({"chunk": 2.5}, "chunk: 2.5, expected a whole number"),
    ({"chunk": np.arange(2)}, "chunk: ndarray, expected a whole number"),
    ({"scale": "1"}, "scale: '1', expected a number"),
    ({"scale": np.arange(2)}, "scale: ndarray, expected a number"),
    ({"scale": 10**400}, "scale: a whole number beyond"),
    ({"cu_seqlens": [0, 2**64 + 70]}, "cu_seqlens[1]: 18446744073709551686, expected 9223372036854775807 or less"),
    ({"cu_seqlens": [0, -1, 70]}, "cu_seqlens[1]: -1, expected 0 or more"),
    ({"cu_seqlens": [0.0, 70]}, "cu_seqlens[0]: 0.0, expected a whole number"),
    ({"cu_seqlens": []}, "cu_seqlens: empty, expected None"),
    ({"cu_seqlens": np.zeros(0, int)}, "cu_seqlens: empty, expected None"),
    ({"cu_seqlens": 70}, "cu_seqlens: 70, expected a list of offsets"),
):
    refuses(wrong, sentence, causeway.linear_attention, q, k, v, **options)
refuses(wrong, "threads: 4294967297, expected 2147483647 or less", causeway.set_threads, 2**32 + 1)
refuses(wrong, "threads: 0, expected 1 or more", causeway.set_threads, 0)
assert causeway.threads() == 2
refuses(wrong, "seed: -1, expected 0 or more", causeway.lowrank, "favor+", q, k, seed=-1)
refuses(wrong, "seed: 18446744073709551616, expected", causeway.lowrank, "favor+", q, k, seed=2**64)
causeway.lowrank("favor+", q, k, seed=2**64 - 1)
refuses(wrong, "block: 9223372036854775808, expected", causeway.causal_linear_attention, q, k, v, block=2**63)
for decay, sentence in (([], "decay: empty"), ("0.9", "decay: '0.9', expected"), ([1, "1"], "decay[1]: '1', expected")):
    refuses(wrong, sentence, causeway.causal_linear_attention, q, k, v, decay=decay)
one = q[:1], k[:1], v[:1]
packed, states = causeway.linear_attention(*one, cu_seqlens=np.array([0, 30, 70]))
assert np.array_equal(packed[:, :, :30], causeway.linear_attention(*(x[:, :, :30] for x in one))[0])
assert states.shape == (2, 3, 5, 7)
assert np.array_equal(packed, causeway.linear_attention(*one, cu_seqlens=(0, 30, 70))[0])
S.flags.writeable = False
refuses(wrong, "state: read-only", causeway.linear_attention_step, *token, S, inplace=True)
refuses(wrong, "state: list, expected", causeway.linear_attention_step, *token, S.tolist(), inplace=True)
refuses(TypeError, "log_decays", causeway.linear_attention, q, k, v, log_decays=g)
endless = np.broadcast_to(q[:1, :1, :1, :1], (1, 1, 2**45, 2**4))
refuses(MemoryError, "out of memory", causeway.linear_attention, endless, endless, endless)

# The library has the major version whose structs the module knows.
library = causeway._library
assert causeway.__version__.split(".")[0] == str(library.ABI)
library.ABI += 1
refuses(ImportError, f"is version {causeway.__version__}, expected {library.ABI}.*", library._declare, library._open())
print("the module holds")
