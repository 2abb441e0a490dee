"""Holds the Python module on CUDA tensors to itself on the CPU, and a model of Transformers to its own kernels.

    CAUSEWAY_LIBRARY=build/libcauseway_gpu.so python3 tests/gpu/c/module_cuda.py core/c/python

Needs PyTorch with CUDA and a GPU; the model is tried where there is Transformers.
"""

import ctypes
import sys
from importlib.util import find_spec

import numpy
import torch

sys.path.insert(0, sys.argv[1])
import causeway  # noqa: E402

torch.manual_seed(1)
KINDS = {torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 4e-3}


def inputs(kind, b=2, h=4, N=300, d_k=64, d_v=64):
    q, k, v, dO = (2 * torch.rand(b, h, N, d) - 1 for d in (d_k, d_k, d_v, d_v))
    k = k / k.norm(dim=-1, keepdim=True)
    return [x.to(kind) for x in (q, k, v, dO)] + [-0.3 * torch.rand(b, h, N), torch.rand(b, h, N)]


def close(name, x, y, tolerance):
    """Against what the CPU makes in Float64 of the same inputs."""
    assert x.is_cuda and torch.isfinite(x.float()).all(), name
    error = ((x.double().cpu() - y.double()).norm() / y.double().norm()).item()
    assert error <= tolerance, f"{name}: relative error {error}, expected at most {tolerance}"
    print(f"{name}: {error:.1e}")


def with_gradients(f, tensors, dO):
    tensors = [x.detach().requires_grad_() for x in tensors]
    O = f(*tensors)
    O.backward(dO.to(O.dtype))
    return [O.detach()] + [x.grad for x in tensors]


def compare(name, f, tensors, dO, tolerance):
    ours = with_gradients(f, [x.cuda() for x in tensors], dO.cuda())
    exact = with_gradients(f, [x.double() for x in tensors], dO)
    for part, x, y in zip(["O"] + [f"d{i}" for i in range(len(tensors))], ours, exact):
        close(f"{name} {dO.dtype} {part}", x, y, tolerance * (1 if part == "O" else 3))


def gated(q, k, v, g):
    return causeway.linear_attention(q, k, v, update="gated", log_decay=g)[0]


def gated_delta(q, k, v, g, beta):
    return causeway.linear_attention(q, k, v, update="gated_delta", log_decay=g, beta=beta, scale=0.125)[0]


def decayed(q, k, v):
    method = "lightning-attention-2" if q.is_cuda else "fleet"
    return causeway.causal_linear_attention(q, k, v, decay=0.9, method=method)


assert causeway.names("methods") and torch.cuda.is_available()
for kind, tolerance in KINDS.items():
    q, k, v, dO, g, beta = inputs(kind)
    compare("gated", gated, (q, k, v, g), dO, tolerance)
    compare("gated_delta", gated_delta, (q, k, v, g, beta), dO, tolerance)
    compare("causal", decayed, (q, k, v), dO, tolerance)
    compare("softmax", causeway.softmax_attention, (q, k, v), dO, tolerance)

# The order of other libraries by strides, another stream, a state carried over, a step in place.
q, k, v, dO, g, beta = (x.cuda() for x in inputs(torch.float32))
gates = {"update": "gated_delta", "log_decay": g, "beta": beta}
whole, last = causeway.linear_attention(q, k, v, **gates)
turned = [x.transpose(1, 2) for x in (q, k, v)]
other = causeway.linear_attention(*turned, update="gated_delta", log_decay=g.transpose(1, 2), beta=beta.transpose(1, 2),
                                  layout="bnhd")[0]
torch.testing.assert_close(other.transpose(1, 2), whole)
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    again = causeway.linear_attention(q, k, v, **gates)[0]
stream.synchronize()
torch.testing.assert_close(again, whole)
first = {name: x[:, :, :200] if torch.is_tensor(x) else x for name, x in gates.items()}
state = causeway.linear_attention(*(x[:, :, :200] for x in (q, k, v)), **first)[1]
for t in range(200, 300):
    token = {name: x[:, :, t : t + 1] if torch.is_tensor(x) else x for name, x in gates.items()}
    o, same = causeway.linear_attention_step(*(x[:, :, t : t + 1] for x in (q, k, v)), state, **token, inplace=True)
    assert same is state
torch.testing.assert_close(state, last, rtol=1e-3, atol=1e-3)
torch.testing.assert_close(o, whole[:, :, 299:], rtol=1e-3, atol=1e-3)


# Packed sequences, with gradients; in a pool, in place; with checkpoints; "prefix" with a gradient behind it.
cuts = [0, 70, 71, 300]
q, k, v, dO, g, beta = inputs(torch.float32, b=1)
first = 0.3 * torch.rand(3, 4, 64, 64)


def packed(q, k, v, g, beta, state):
    O, last = causeway.linear_attention(q, k, v, update="gated_delta", log_decay=g, beta=beta, state=state, cu_seqlens=cuts)
    return O + last.sum() / 1000


compare("packed", packed, (q, k, v, g, beta, first), dO, 1e-4)
compare("packed softmax", lambda *x: causeway.softmax_attention(*x, cu_seqlens=cuts), (q, k, v), dO, 1e-4)
convolution, weight = torch.rand(1, 300, 6), torch.rand(6, 4)
compare("convolution", lambda x, w: causeway.short_convolution(x, w, cu_seqlens=cuts)[0], (convolution, weight),
        torch.rand(1, 300, 6), 1e-4)
compare("norm", lambda x, w: causeway.rms_norm(x, weight=w), (convolution, torch.rand(6)), torch.rand(1, 300, 6), 1e-4)
decays, erased = 0.9 + 0.1 * torch.rand(1, 4, 300), k * 0.5


def general(q, k, v, a, u, state):
    return causeway.general_linear_attention(q, k, v, a=a, u=u, w=u, state=state, cu_seqlens=cuts)[0]


compare("general", general, (q, k, v, decays, erased, first), dO, 1e-4)
options = {"update": "gated_delta", "cu_seqlens": torch.tensor(cuts), "state_indices": [4, 0, 2], "inplace": True,
           "checkpoint_every": 50}
pools = [torch.rand(6, 4, 64, 64, generator=torch.Generator().manual_seed(1)).to(where) for where in ("cpu", "cuda")]
(O, pool, kept), (O_there, pool_there, kept_there) = (
    causeway.linear_attention(*(x.to(p.device) for x in (q, k, v)), log_decay=g.to(p.device), beta=beta.to(p.device),
                              state=p, **options) for p in pools)
assert pool_there is pools[1] and kept_there.is_cuda and kept_there.shape == (5, 4, 64, 64)
for ours, expected in ((O_there, O), (pool_there, pool), (kept_there, kept)):
    torch.testing.assert_close(ours.cpu(), expected, rtol=1e-3, atol=1e-3)
leaf = q.cuda().requires_grad_()
causeway.linear_attention(leaf, k.cuda(), v.cuda(), deterministic="prefix")[0].backward(dO.cuda())
assert torch.isfinite(leaf.grad).all()
q, k, v, dO, g, beta = (x.cuda() for x in inputs(torch.float32))
gates = {"update": "gated_delta", "log_decay": g, "beta": beta}
whole, last = causeway.linear_attention(q, k, v, **gates)

# What is not PyTorch's, by __cuda_array_interface__.
class Foreign:
    def __init__(self, x):
        self.keeps, self.__cuda_array_interface__ = x, x.__cuda_array_interface__


torch.cuda.synchronize()
found = causeway.linear_attention(*map(Foreign, (q, k, v)), update="gated_delta", log_decay=Foreign(g), beta=Foreign(beta))[0]
torch.cuda.synchronize()
torch.testing.assert_close(torch.as_tensor(found, device="cuda"), whole)
state = torch.zeros(2, 4, 64, 64, device="cuda")
token = [x[:, :, :1].contiguous() for x in (q, k, v)]
o = causeway.linear_attention_step(*map(Foreign, token), Foreign(state), inplace=True)[0]
expected = causeway.linear_attention(*token)
torch.cuda.synchronize()
torch.testing.assert_close(torch.as_tensor(o, device="cuda"), expected[0])
torch.testing.assert_close(state, expected[1])

# On a stream of its own, with much before it: a call that did not wait for the stream would read zeros.
class Made(Foreign):
    def __init__(self, x, stream):
        super().__init__(x)
        self.__cuda_array_interface__ = {**x.__cuda_array_interface__, "version": 3, "stream": stream.cuda_stream}


late = [torch.zeros_like(x) for x in (q, k, v, g, beta)]
torch.cuda.synchronize()
with torch.cuda.stream(stream):
    torch.cuda._sleep(1 << 28)
    for x, y in zip(late, (q, k, v, g, beta)):
        x.copy_(y)
late = [Made(x, stream) for x in late]
found = causeway.linear_attention(*late[:3], update="gated_delta", log_decay=late[3], beta=late[4])[0]
assert found.__cuda_array_interface__["stream"] == stream.cuda_stream
torch.cuda.synchronize()
torch.testing.assert_close(torch.as_tensor(found, device="cuda"), whole)

# A call on another GPU leaves the thread on its own.
if torch.cuda.device_count() > 1:
    there = [x.to("cuda:1") for x in (q, k, v, g, beta)]
    torch.cuda.set_device(0)
    O = causeway.linear_attention(*there[:3], update="gated_delta", log_decay=there[3], beta=there[4])[0]
    assert O.device.index == 1 and torch.cuda.current_device() == 0 and torch.zeros(1, device="cuda").device.index == 0
    current = ctypes.c_int(-1)
    assert ctypes.CDLL("libcuda.so.1").cuCtxGetDevice(ctypes.byref(current)) == 0 and current.value == 0
    torch.testing.assert_close(O.cpu(), whole.cpu())

# Outputs in the memory of the CPU, in C: refused, and the others are as they were.
places = {"q": q, "k": k, "v": v, "O": torch.zeros_like(v), "state": torch.zeros(2, 4, 64, 64)}
structs = {name: causeway._arrays.required(name, x) for name, x in places.items()}
status = causeway._library.LIBRARY.causeway_gpu_linear_attention(
    *(ctypes.byref(structs[name]) for name in ("q", "k", "v")), None, ctypes.byref(structs["O"]),
    ctypes.byref(structs["state"]), None)
torch.cuda.synchronize()
assert status == 1 and "state: not in the memory of a GPU" in causeway._library.last_error()
assert not places["O"].any() and not places["state"].any()

# Results are given back: a thousand calls hold no more memory than one.
torch.cuda.synchronize()
free = torch.cuda.mem_get_info()[0]
for _ in range(1000):
    causeway.linear_attention(q, k, v, **gates)
torch.cuda.synchronize()
assert free - torch.cuda.mem_get_info()[0] < 64 << 20


def refuses(sentence, f, *arguments, **options):
    try:
        f(*arguments, **options)
    except causeway.ArgumentError as error:
        assert sentence in str(error), error
        return
    raise AssertionError(f"not refused: {sentence}")


refuses("expected one device", causeway.linear_attention, q, k.cpu(), v)
refuses("not there on a GPU", causeway.lowrank, "favor+", q, k)
refuses("deterministic: \"prefix\"", causeway.causal_linear_attention, q, k, v, deterministic="prefix")
refuses("nonsense", causeway.causal_linear_attention, q, k, v, deterministic="nonsense")
causeway.linear_attention(q, k, v, deterministic="run")
refuses("k: length 299, expected 300", causeway.linear_attention, q, k[:, :, :299].contiguous(), v)
assert numpy.isfinite(causeway.linear_attention(*(x.cpu().numpy() for x in (q, k, v)))[0]).all()

if find_spec("transformers"):
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    from causeway.transformers import use

    config = Qwen3NextConfig(
        vocab_size=50, hidden_size=64, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=64,
        num_hidden_layers=4, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=64,
        linear_value_head_dim=64, num_experts=2, num_experts_per_tok=1, moe_intermediate_size=16,
        shared_expert_intermediate_size=16)
    model = Qwen3NextForCausalLM(config).eval().cuda()
    ids = torch.randint(0, 50, (2, 90), device="cuda")
    with torch.no_grad():
        plain, text = model(ids).logits, model.generate(ids[:1], max_new_tokens=20, do_sample=False)
        assert use(model) == {"linear": 3, "attention": 1}
        ours = model(ids).logits
        assert not torch.equal(ours, plain)
        torch.testing.assert_close(ours, plain, rtol=1e-3, atol=1e-4)
        assert torch.equal(model.generate(ids[:1], max_new_tokens=20, do_sample=False), text)
    print("a model of Transformers computes the same with our kernels on a GPU")
print("the module holds on a GPU")
