"""Arrays of NumPy and PyTorch as the library sees them, and its results as theirs."""

import ctypes
import sys
import weakref

import numpy

from ._library import LIBRARY, ArgumentError, Tensor

FLOAT32, FLOAT64, FLOAT16, BFLOAT16 = range(4)
TYPES = {"float32": FLOAT32, "float64": FLOAT64, "float16": FLOAT16, "bfloat16": BFLOAT16}
NAMES = {number: name for name, number in TYPES.items()}
BYTES = {FLOAT32: 4, FLOAT64: 8, FLOAT16: 2, BFLOAT16: 2}


def torch_of(*arrays):
    """The module torch if one of the arrays is a tensor of it; it is never imported for others."""
    torch = sys.modules.get("torch")
    return torch if torch and any(isinstance(a, torch.Tensor) for a in arrays) else None


def _fill(name, type_name, data, shape, strides):
    if type_name not in TYPES:
        raise ArgumentError(f"{name}: {type_name}, expected {', '.join(TYPES)}")
    if len(shape) > 4:
        raise ArgumentError(f"{name}: {len(shape)} dimensions, expected at most 4")
    tensor = Tensor(data=data, type=TYPES[type_name], ndim=len(shape))
    tensor.shape[: len(shape)] = shape
    tensor.strides[: len(shape)] = strides
    return tensor


def _of_torch(name, x):
    if x.device.type != "cpu":
        raise ArgumentError(f"{name}: on {x.device}, expected a tensor on the CPU")
    if x.layout != sys.modules["torch"].strided:
        raise ArgumentError(f"{name}: {x.layout}, expected a dense tensor")
    tensor = _fill(name, str(x.dtype).removeprefix("torch."), x.data_ptr(), x.shape, x.stride())
    tensor.keeps = x
    return tensor


def _of_numpy(name, x):
    if not isinstance(x, numpy.ndarray):
        if not hasattr(x, "__dlpack__"):
            raise ArgumentError(f"{name}: {type(x).__name__}, expected an array of NumPy or a tensor of PyTorch")
        try:
            x = numpy.from_dlpack(x)
        except (RuntimeError, BufferError, TypeError) as error:
            raise ArgumentError(f"{name}: {type(x).__name__} cannot be read on the CPU ({error})") from None
    if not x.dtype.isnative:
        raise ArgumentError(f"{name}: of foreign byte order, expected that of this machine")
    if x.itemsize and any(stride % x.itemsize for stride in x.strides):
        x = numpy.ascontiguousarray(x)  # fields of records
    tensor = _fill(name, x.dtype.name, x.ctypes.data, x.shape, [stride // x.itemsize for stride in x.strides])
    tensor.keeps = x
    return tensor


def required(name, x):
    """The argument as a struct, which keeps the memory alive."""
    return _of_torch(name, x) if torch_of(x) else _of_numpy(name, x)


def optional(name, x):
    return None if x is None else required(name, x)


def check_one_kind(arrays):
    """torch where the named arrays are all tensors of it, None where none is; of both kinds they are refused."""
    torch = torch_of(*arrays.values())
    for name, x in arrays.items():
        if torch and x is not None and not torch_of(x):
            raise ArgumentError(f"{name}: {type(x).__name__}, expected a tensor of PyTorch like the others")
    return torch


def check_no_gradient(what, arrays):
    """Refuses tensors whose gradient would be dropped in silence; returns what check_one_kind does."""
    torch = check_one_kind(arrays)
    for name, x in arrays.items():
        if torch and torch.is_grad_enabled() and x is not None and x.requires_grad:
            raise ArgumentError(f"{name}: requires a gradient, but {what} has none, expected detach() or no_grad()")
    return torch


def writable(name, x):
    """The argument if what is written to its struct reaches it."""
    if torch_of(x):
        return x
    if not isinstance(x, numpy.ndarray):
        raise ArgumentError(f"{name}: {type(x).__name__}, expected an array of NumPy to write to")
    if not x.flags.writeable or any(stride % x.itemsize for stride in x.strides):
        raise ArgumentError(f"{name}: read-only, or a part of records, expected an array that can be written")
    return x


def copied(name, x):
    """A copy of an array, of its kind."""
    if torch_of(x):
        return x.detach().clone()
    return numpy.array(_of_numpy(name, x).keeps)


def _memory(tensor):
    """The library's memory as a buffer that gives it back when nothing looks at it any more."""
    size = BYTES[tensor.type]
    for i in range(tensor.ndim):
        size *= tensor.shape[i]
    memory = (ctypes.c_char * size).from_address(tensor.data)
    weakref.finalize(memory, LIBRARY.causeway_release, Tensor.from_buffer_copy(tensor)).atexit = False
    return memory


def taken(tensor, torch=None):
    """A result as an array of NumPy, or a tensor of torch, over the library's memory."""
    shape = tuple(tensor.shape[: tensor.ndim])
    name = NAMES[tensor.type]
    if torch:
        kind = getattr(torch, name)
        if 0 in shape:
            LIBRARY.causeway_release(tensor)
            return torch.empty(shape, dtype=kind)
        return torch.frombuffer(_memory(tensor), dtype=kind).reshape(shape)
    if name == "bfloat16":
        import ml_dtypes  # which the input of this type came from

        kind = ml_dtypes.bfloat16
    else:
        kind = name
    if 0 in shape:
        LIBRARY.causeway_release(tensor)
        return numpy.empty(shape, kind)
    return numpy.frombuffer(_memory(tensor), kind).reshape(shape)
