#!/usr/bin/env python3
"""Makes the files of tests/data with NumPy and the safetensors library.

python3 -m venv --system-site-packages /tmp/venv && /tmp/venv/bin/pip install numpy safetensors ml_dtypes
/tmp/venv/bin/python make_golden.py

Element number k (row-major) of every array is ((7 k) mod 13 - 6) / 4, without the quarter for integers, without the
sign for unsigned ones, and k mod 3 = 0 for truth values: exact in every type, and the tests need no second copy.
"""
import os

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

os.chdir(os.path.dirname(os.path.abspath(__file__)))


def values(dtype, shape):
    k = np.arange(int(np.prod(shape)))
    kind = np.dtype(dtype).kind
    v = {"f": (7 * k % 13 - 6) / 4, "i": 7 * k % 13 - 6, "u": 7 * k % 13, "b": k % 3 == 0}[kind]
    return v.astype(dtype).reshape(shape)


# NumPy's writer in its three versions, both byte orders, both storage orders.
for code in ["f2", "f4", "f8"]:
    np.save(f"{code}_2x3.npy", values("<" + code, (2, 3)))
    np.save(f"{code}_big_2x3.npy", values(">" + code, (2, 3)))
for code in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]:
    np.save(f"{code}_5.npy", values("<" + code, (5,)))
np.save("i4_big_fortran_3x4.npy", np.asfortranarray(values(">i4", (3, 4))))
np.save("bool_5.npy", values("bool", (5,)))
np.save("f4_0d.npy", values("<f4", ()))
np.save("f8_1.npy", values("<f8", (1,)))
np.save("f4_0x3.npy", values("<f4", (0, 3)))
np.save("f4_2x3x4x5.npy", values("<f4", (2, 3, 4, 5)))
np.save("f4_fortran_2x3x4x5.npy", np.asfortranarray(values("<f4", (2, 3, 4, 5))))
np.save("f8_big_fortran_2x3x4.npy", np.asfortranarray(values(">f8", (2, 3, 4))))
for version in [(2, 0), (3, 0)]:
    with open(f"f4_v{version[0]}_2x3.npy", "wb") as f:
        np.lib.format.write_array(f, values("<f4", (2, 3)), version=version)

arrays = {
    "single": values("<f4", (2, 3, 4, 5)),
    "double": np.asfortranarray(values(">f8", (3, 4))),
    "half": values("<f2", (3, 2)),
    "bytes": values("u1", (5,)),
    "scalar": values("<f4", ()),
    "nothing": values("<f4", (0, 3)),
    "layer/größe β": values("<f8", (1,)),
}
np.savez("stored.npz", **arrays)
np.savez_compressed("deflated.npz", **arrays)
np.savez_compressed("zeros.npz", zeros=np.zeros(300_000, "<f4"))


# The safetensors library.
floats = {
    "half": values("<f2", (3, 2)),
    "brain": values("<f4", (2, 2, 2)).astype(ml_dtypes.bfloat16),
    "single": values("<f4", (2, 3, 4, 5)),
    "double": values("<f8", (4,)),
    "scalar": values("<f4", ()),
    "nothing": values("<f4", (0, 3)),
    "größe β": values("<f2", (1,)),
}
save_file(floats, "floats.safetensors", {"made by": "safetensors"})
integers = {code: values(code, (5,)) for code in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "bool"]}
save_file(integers, "integers.safetensors")
