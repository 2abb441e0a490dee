"""The shared library and the structs of causeway.h."""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path


class Error(RuntimeError):
    """A call that could not be carried out; the sentence says why."""


class ArgumentError(Error, ValueError):
    """An argument is not what was expected."""


class OutOfMemoryError(Error, MemoryError):
    """The machine does not have the memory."""


NAME = "libcauseway.so"
ABI = 0  # of the soname, the major version of CMakeLists.txt: structs and functions are as below; _declare holds it


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("type", c_int32),
        ("ndim", c_int32),
        ("shape", c_int64 * 4),
        ("strides", c_int64 * 4),
        ("owner", c_void_p),
    ]


class CausalOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("method", c_char_p),
        ("decay", POINTER(c_double)),
        ("decay_count", c_int64),
        ("normalize", c_int32),
        ("block", c_int64),
        ("scale", POINTER(c_double)),
        ("state", POINTER(Tensor)),
    ]


class LinearOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("update", c_char_p),
        ("mode", c_char_p),
        ("chunk", c_int64),
        ("scale", POINTER(c_double)),
        ("log_decay", POINTER(Tensor)),
        ("beta", POINTER(Tensor)),
        ("state", POINTER(Tensor)),
        ("cu_seqlens", POINTER(c_int64)),
        ("cu_seqlens_count", c_int64),
    ]


class LinearGradients(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("dq", POINTER(Tensor)),
        ("dk", POINTER(Tensor)),
        ("dv", POINTER(Tensor)),
        ("dlog_decay", POINTER(Tensor)),
        ("dbeta", POINTER(Tensor)),
        ("dinitial", POINTER(Tensor)),
    ]


class SoftmaxOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("method", c_char_p),
        ("scale", POINTER(c_double)),
        ("sees_all_keys", c_int32),
    ]


class LowRankOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("rank", c_int64),
        ("seed", POINTER(c_uint64)),
        ("scale", POINTER(c_double)),
        ("v", POINTER(Tensor)),
        ("names", POINTER(c_char_p)),
        ("values", POINTER(c_double)),
        ("count", c_int64),
    ]


def _places():
    """Where the library may be: beside this package, in the checkout's build folder, in the prefix."""
    here = Path(__file__).resolve().parent
    yield here / NAME
    if here.parts[-4:] == ("core", "c", "python", "causeway"):
        yield Path(os.environ.get("CAUSEWAY_BUILD", here.parents[3] / "build")) / NAME
        return
    for prefix in here.parents[:4]:
        for folder in ("lib", "lib64"):
            yield prefix / folder / f"{NAME}.{ABI}"
            yield from sorted((prefix / folder).glob(f"*/{NAME}.{ABI}"))


def _open():
    named = os.environ.get("CAUSEWAY_LIBRARY")
    tried = [Path(named)] if named else list(_places())
    found = next((place for place in tried if place.exists()), None)
    try:
        if found or not named:
            return ctypes.CDLL(str(found or f"{NAME}.{ABI}"))  # that is where the system's loader looks
    except OSError as error:
        if found:
            raise ImportError(f"{found} cannot be loaded: {error}") from None
    raise ImportError(
        f"{NAME} was not found: build it (./lab build c), or name it in CAUSEWAY_LIBRARY; looked for "
        + ", ".join(map(str, tried))
    )


def _declare(lib):
    tensor = POINTER(Tensor)
    causal, linear, softmax = POINTER(CausalOptions), POINTER(LinearOptions), POINTER(SoftmaxOptions)
    arguments = {
        "set_threads": [c_int32],
        "causal_linear_attention": [tensor] * 3 + [causal] + [tensor] * 2,
        "causal_linear_attention_grad": [tensor] * 4 + [causal] + [tensor] * 3 + [POINTER(c_double), tensor],
        "linear_attention": [tensor] * 3 + [linear] + [tensor] * 2,
        "linear_attention_grad": [tensor] * 5 + [linear, POINTER(LinearGradients)],
        "linear_attention_step": [tensor] * 3 + [linear] + [tensor] * 2,
        "softmax_attention": [tensor] * 3 + [softmax] + [tensor] * 2,
        "softmax_attention_grad": [tensor] * 6 + [softmax] + [tensor] * 3,
        "lowrank": [c_char_p, tensor, tensor, POINTER(LowRankOptions), tensor, tensor],
    }
    for name, types in arguments.items():
        function = getattr(lib, "causeway_" + name)
        function.argtypes, function.restype = types, c_int32
    lib.causeway_release.argtypes, lib.causeway_release.restype = [tensor], None
    lib.causeway_name.argtypes, lib.causeway_name.restype = [c_char_p, c_int64], c_char_p
    lib.causeway_threads.restype = c_int32
    lib.causeway_version.restype = lib.causeway_last_error.restype = c_char_p
    found = lib.causeway_version().decode()
    if int(found.split(".")[0]) != ABI:
        raise ImportError(f"{lib._name} is version {found}, expected {ABI}.*, which this module is for")
    return lib


LIBRARY = _declare(_open())


def version():
    return LIBRARY.causeway_version().decode()


def last_error():
    return LIBRARY.causeway_last_error().decode()


def call(name, *arguments):
    """Calls causeway_NAME and raises what it refuses."""
    status = getattr(LIBRARY, "causeway_" + name)(*arguments)
    if status == 0:
        return
    raise {1: ArgumentError, 2: OutOfMemoryError}.get(status, Error)(last_error())
