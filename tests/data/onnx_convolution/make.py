#!/usr/bin/env python3
"""Makes the files of tests/data/onnx_convolution: the test cases of the ONNX operator CausalConvWithState (opset 27).

Needs numpy and onnx 1.23.2:
    pip install onnx==1.23.2 && python3 make.py

They are those that ONNX has for every implementation of the operator (onnx.backend.test.case.node), run here with fixed
seeds. In ONNX, inputs and states have the channels before the tokens; here they are as causeway takes them, [batch,
length, channels], and weight [channels, taps]. Only the layout is changed, no number.
"""
import json
import os
import struct

import numpy as np
import onnx
import onnx.backend.test.case.node.causal_conv_with_state as published

os.chdir(os.path.dirname(os.path.abspath(__file__)))


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


def swapped(x):
    return x.transpose(0, 2, 1)


def keep(node, inputs, outputs, name, **_):
    """What each case hands to `expect`."""
    given = dict(zip([n for n in node.input if n], inputs, strict=True))
    activation = [onnx.helper.get_attribute_value(a).decode() for a in node.attribute if a.name == "activation"]
    tensors = {
        "x": swapped(given["input"]),
        "weight": given["weight"][:, 0],
        "output": swapped(outputs[0]),
        "present_state": swapped(outputs[1]),
    }
    if "bias" in given:
        tensors["bias"] = given["bias"]
    if "past_state" in given:
        tensors["past_state"] = swapped(given["past_state"])
    save(name.removeprefix("test_causal_conv_with_state_") + ".safetensors", tensors, {
        "activation": (activation or ["none"])[0].replace("swish", "silu"),
        "made by": "onnx " + onnx.__version__,
    })


published.expect = keep
for number, case in enumerate(sorted(n for n in dir(published.CausalConvWithState) if n.startswith("export_"))):
    np.random.seed(number)
    getattr(published.CausalConvWithState, case)()
