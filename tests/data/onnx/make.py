#!/usr/bin/env python3
"""Makes the files of tests/data/onnx: test cases of the ONNX operator LinearAttention (opset 27).

Needs numpy and onnx 1.23.2:
    pip install onnx==1.23.2 && python3 make.py

The first ones are those that ONNX has for every implementation of the operator (onnx.backend.test.case.node), run here with
fixed seeds; the others come from its reference implementation on inputs of our own. In ONNX, q, k, v and the gates are packed,
[batch, length, heads · width]; here they are as causeway takes them, [batch, heads, length, width], gates of a head and
beta [batch, heads, length]. Only the layout is changed, no number. Attributes stand in the metadata; a scale of 0, in
ONNX 1/sqrt(d_k), is written out.
"""
import json
import os
import struct

import numpy as np
import onnx
import onnx.backend.test.case.node.linear_attention as published
from onnx.reference.ops.op_linear_attention import LinearAttention as Reference

os.chdir(os.path.dirname(os.path.abspath(__file__)))


def unpacked(x, heads):
    b, t, w = x.shape
    return np.ascontiguousarray(x.reshape(b, t, heads, w // heads).transpose(0, 2, 1, 3))


def save(path, tensors, metadata):
    """A .safetensors file: the length of the header, the header, the elements."""
    types = {"float32": "F32", "float16": "F16"}
    header, body = {"__metadata__": metadata}, b""
    for name, x in tensors.items():
        data = np.ascontiguousarray(x).tobytes()
        header[name] = {"dtype": types[str(x.dtype)], "shape": list(x.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def write(name, inputs, outputs, attributes):
    h_q, h = attributes["q_num_heads"], attributes["kv_num_heads"]
    q = unpacked(inputs["query"], h_q)
    scale = attributes.get("scale", 0.0)
    tensors = {
        "q": q,
        "k": unpacked(inputs["key"], h),
        "v": unpacked(inputs["value"], h),
        "output": unpacked(outputs[0], h_q),
        "present_state": outputs[1],
    }
    if "past_state" in inputs:
        tensors["past_state"] = inputs["past_state"]
    if "decay" in inputs:
        g = unpacked(inputs["decay"], h)
        tensors["log_decay"] = g[..., 0] if g.shape[-1] == 1 else g
    if "beta" in inputs:
        beta = inputs["beta"]
        tensors["beta"] = unpacked(beta, beta.shape[-1])[..., 0]
    save(name + ".safetensors", tensors, {
        "update": attributes.get("update_rule", "gated_delta"),
        "scale": repr(float(scale if scale != 0 else 1 / np.sqrt(q.shape[-1]))),
        "made by": "onnx " + onnx.__version__,
    })


# ── The published cases: each of them hands its node, inputs and outputs to `expect` ──


def keep(node, inputs, outputs, name, **_):
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attributes = {key: value.decode() if isinstance(value, bytes) else value for key, value in attributes.items()}
    names = [n for n in node.input if n]
    write(name.removeprefix("test_linear_attention_"), dict(zip(names, inputs, strict=True)), outputs, attributes)


published.expect = keep
for number, case in enumerate(sorted(n for n in dir(published.LinearAttention) if n.startswith("export_"))):
    np.random.seed(number)
    getattr(published.LinearAttention, case)()


# ── Cases of our own, by the reference implementation ──


def extra(name, seed, b, t, h_q, h, d_k, d_v, update, gate=0.1, per_head=False, one_beta=False, past=False, **attributes):
    r = np.random.default_rng(seed)
    normal = lambda *shape: r.standard_normal(shape).astype(np.float32)
    key = normal(b, t, h, d_k)
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    inputs = {"query": normal(b, t, h_q * d_k), "key": key.reshape(b, t, h * d_k), "value": normal(b, t, h * d_v)}
    if past:
        inputs["past_state"] = normal(b, h, d_k, d_v)
    if "gated" in update:
        inputs["decay"] = -np.float32(gate) * np.abs(normal(b, t, h if per_head else h * d_k))
    if "delta" in update:
        inputs["beta"] = r.random((b, t, 1 if one_beta else h), dtype=np.float32)
    attributes = {"q_num_heads": h_q, "kv_num_heads": h, "update_rule": update, **attributes}
    given = [inputs.get(n) for n in ("query", "key", "value", "past_state", "decay", "beta")]
    outputs = Reference.__new__(Reference)._run(*given, **attributes)
    write("extra_" + name, inputs, outputs, attributes)


extra("long_strong_gates", 1, 1, 200, 2, 2, 8, 6, "gated_delta", gate=5, past=True)
extra("long_strong_head_gates", 2, 1, 200, 2, 2, 8, 6, "gated", gate=5, per_head=True)
extra("long_delta", 3, 1, 200, 2, 1, 8, 5, "delta", past=True)
extra("mqa_one_beta", 4, 2, 70, 4, 1, 5, 7, "gated_delta", per_head=True, one_beta=True, past=True, scale=0.3)
extra("gqa_one_beta", 5, 2, 9, 6, 3, 17, 3, "delta", one_beta=True)
extra("long_linear", 6, 1, 130, 3, 3, 7, 9, "linear", past=True)
