"""The shared library and the structs of causeway.h."""

import ctypes
import os
import signal
import threading
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path


class Error(RuntimeError):
    """A call that could not be carried out; the sentence says why."""


class ArgumentError(Error, ValueError):
    """An argument is not what was expected."""


class OutOfMemoryError(Error, MemoryError):
    """The machine does not have the memory."""


class InterruptedCallError(Error):
    """The call was stopped from outside, and Ctrl-C has a handler that raised nothing itself."""


NAMES = ("libcauseway_gpu.so", "libcauseway.so")  # the first has the calls on arrays of a GPU besides
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


# What the options of calls on whole sequences end with.
SEQUENCES = [
    ("cu_seqlens", POINTER(c_int64)),
    ("cu_seqlens_count", c_int64),
    ("state_indices", POINTER(c_int64)),
    ("state_indices_count", c_int64),
    ("inplace", c_int32),
    ("checkpoint_every", c_int64),
    ("checkpoints", POINTER(Tensor)),
    ("deterministic", c_char_p),
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
        *SEQUENCES,
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
        *SEQUENCES,
        ("qk_l2norm", c_int32),
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


class GeneralOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("mode", c_char_p),
        ("chunk", c_int64),
        ("scale", POINTER(c_double)),
        ("a", POINTER(Tensor)),
        ("u", POINTER(Tensor)),
        ("w", POINTER(Tensor)),
        ("state", POINTER(Tensor)),
        *SEQUENCES,
    ]


class GeneralGradients(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("dq", POINTER(Tensor)),
        ("dk", POINTER(Tensor)),
        ("dv", POINTER(Tensor)),
        ("da", POINTER(Tensor)),
        ("du", POINTER(Tensor)),
        ("dw", POINTER(Tensor)),
        ("dinitial", POINTER(Tensor)),
    ]


class SoftmaxOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("method", c_char_p),
        ("scale", POINTER(c_double)),
        ("sees_all_keys", c_int32),
        ("cu_seqlens", POINTER(c_int64)),
        ("cu_seqlens_count", c_int64),
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


def _places(name):
    """Where the library may be: beside this package, in the checkout's build folder, in the prefix."""
    here = Path(__file__).resolve().parent
    yield here / name
    if here.parts[-4:] == ("core", "c", "python", "causeway"):
        yield Path(os.environ.get("CAUSEWAY_BUILD", here.parents[3] / "build")) / name
        return
    for prefix in here.parents[:4]:
        for folder in ("lib", "lib64"):
            yield prefix / folder / f"{name}.{ABI}"
            yield from sorted((prefix / folder).glob(f"*/{name}.{ABI}"))


def _open():
    named = os.environ.get("CAUSEWAY_LIBRARY")
    tried = [Path(named)] if named else [place for name in NAMES for place in _places(name)]
    found = next((place for place in tried if place.exists()), None)
    try:
        if found or not named:
            return ctypes.CDLL(str(found or f"{NAMES[-1]}.{ABI}"))  # that is where the system's loader looks
    except OSError as error:
        if found:
            raise ImportError(f"{found} cannot be loaded: {error}") from None
    raise ImportError(
        f"{NAMES[-1]} was not found: build it (./lab build c), or name it in CAUSEWAY_LIBRARY; looked for "
        + ", ".join(map(str, tried))
    )


def _declare(lib):
    tensor = POINTER(Tensor)
    causal, linear, softmax = POINTER(CausalOptions), POINTER(LinearOptions), POINTER(SoftmaxOptions)
    general, number, offsets = POINTER(GeneralOptions), POINTER(c_double), [POINTER(c_int64), c_int64]
    arguments = {
        "set_threads": [c_int32],
        "causal_linear_attention": [tensor] * 3 + [causal] + [tensor] * 2,
        "causal_linear_attention_grad": [tensor] * 4 + [causal] + [tensor] * 3 + [number, tensor],
        "linear_attention": [tensor] * 3 + [linear] + [tensor] * 2,
        "linear_attention_grad": [tensor] * 5 + [linear, POINTER(LinearGradients)],
        "linear_attention_step": [tensor] * 3 + [linear] + [tensor] * 2,
        "general_linear_attention": [tensor] * 3 + [general] + [tensor] * 2,
        "general_linear_attention_grad": [tensor] * 5 + [general, POINTER(GeneralGradients)],
        "general_linear_attention_step": [tensor] * 3 + [general] + [tensor] * 2,
        "short_convolution": [tensor] * 4 + [c_char_p] + offsets + [tensor] * 2,
        "short_convolution_grad": [tensor] * 4 + [c_char_p] + offsets + [tensor] * 6,
        "l2norm": [tensor, number, tensor],
        "l2norm_grad": [tensor, number, tensor, tensor],
        "rms_norm": [tensor] * 3 + [c_char_p, number, tensor],
        "rms_norm_grad": [tensor] * 3 + [c_char_p, number] + [tensor] * 4,
        "decay_gate": [tensor] * 3 + [number, tensor],
        "decay_gate_grad": [tensor] * 3 + [number] + [tensor] * 4,
        "softmax_attention": [tensor] * 3 + [softmax] + [tensor] * 2,
        "softmax_attention_grad": [tensor] * 6 + [softmax] + [tensor] * 3,
        "lowrank": [c_char_p, tensor, tensor, POINTER(LowRankOptions), tensor, tensor],
    }
    if hasattr(lib, "causeway_gpu_linear_attention"):
        stream = [c_void_p]
        arguments |= {"gpu_" + name: types + stream for name, types in arguments.items()
                      if name not in ("set_threads", "lowrank")}
        arguments["gpu_causal_linear_attention_grad"].remove(number)  # there is no gradient of the decay
    for name, types in arguments.items():
        function = getattr(lib, "causeway_" + name)
        function.argtypes, function.restype = types, c_int32
    lib.causeway_release.argtypes, lib.causeway_release.restype = [tensor], None
    lib.causeway_name.argtypes, lib.causeway_name.restype = [c_char_p, c_int64], c_char_p
    for name in ("threads", "begin_interruptible", "end_interruptible"):
        getattr(lib, "causeway_" + name).restype = c_int32
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


def _catches_interrupts():
    """Whether Ctrl-C has a handler of Python's, which could run only after a call; those are run in the main thread."""
    return threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT))


def call(name, *arguments):
    """Calls causeway_NAME and raises what it refuses. Ctrl-C ends the call; what Python does for it is then done."""
    function = getattr(LIBRARY, "causeway_" + name)
    if _catches_interrupts() and LIBRARY.causeway_begin_interruptible():
        try:
            status = function(*arguments)
        finally:
            times = LIBRARY.causeway_end_interruptible()
        if times:
            signal.raise_signal(signal.SIGINT)
    else:
        status = function(*arguments)
    if status == 0:
        return
    raise {1: ArgumentError, 2: OutOfMemoryError, 4: InterruptedCallError}.get(status, Error)(last_error())
