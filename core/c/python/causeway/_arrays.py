"""Arrays of NumPy and PyTorch as the library sees them, and its results as theirs."""

import sys

import numpy

from ._library import LIBRARY, ArgumentError, Tensor, call

NAMES = ("float32", "float64", "float16", "bfloat16")  # in the order of causeway.h
TYPES = {name: number for number, name in enumerate(NAMES)}
SIZES = (4, 8, 2, 2)  # in bytes
DTYPES = {numpy.dtype(name): TYPES[name] for name in NAMES[:3]}


def torch_of(*arrays):
    """The module torch if one of the arrays is a tensor of it; it is never imported for others."""
    torch = sys.modules.get("torch")
    return torch if torch and any(isinstance(a, torch.Tensor) for a in arrays) else None


def _fill(name, kind, data, shape, strides):
    if len(shape) > 4:
        raise ArgumentError(f"{name}: {len(shape)} dimensions, expected at most 4")
    tensor = Tensor(data, kind, len(shape))
    tensor.shape[: len(shape)] = shape
    tensor.strides[: len(shape)] = strides
    return tensor


def _type_of(name, type_name):
    if type_name not in TYPES:
        raise ArgumentError(f"{name}: {type_name}, expected {', '.join(TYPES)}")
    return TYPES[type_name]


def _of_torch(name, x):
    if x.device.type not in ("cpu", "cuda"):
        raise ArgumentError(f"{name}: on {x.device}, expected a tensor on the CPU or a GPU of NVIDIA")
    if x.layout != sys.modules["torch"].strided:
        raise ArgumentError(f"{name}: {x.layout}, expected a dense tensor")
    x = x.resolve_neg()  # the imaginary part of a conjugate has its sign as a note beside the memory
    if x.device.type == "cuda":
        _check_gpu(name)
        x = x.contiguous()
    tensor = _fill(name, _type_of(name, str(x.dtype).removeprefix("torch.")), x.data_ptr(), x.shape, x.stride())
    tensor.keeps, tensor.device = x, x.device if x.device.type == "cuda" else None
    return tensor


def _check_gpu(name):
    if not hasattr(LIBRARY, "causeway_gpu_linear_attention"):
        raise ArgumentError(
            f"{name}: on a GPU, but {LIBRARY._name} is for the CPU alone, expected libcauseway_gpu.so (./lab build c "
            "where the CUDA library is built)"
        )


GPU = "cuda"  # the device of arrays that are not PyTorch's


def _of_interface(name, x):
    """An array on a GPU that is not PyTorch's, by __cuda_array_interface__. Where it says on which stream it is made,
    the call is queued behind that."""
    _check_gpu(name)
    told = x.__cuda_array_interface__
    stream = told.get("stream")
    if stream == 0:
        raise ArgumentError(f"{name}: stream 0, expected 1, 2 or the address of a stream, as the interface has it")
    kind = numpy.dtype(told["typestr"])
    strides = told.get("strides")
    if kind not in DTYPES:
        raise ArgumentError(f"{name}: {kind}, expected {', '.join(NAMES[:3])}")
    steps, size = [1], kind.itemsize
    for n in reversed(told["shape"][1:]):
        steps.insert(0, steps[0] * n)
    if strides is not None and any(n > 1 and s != t * size for n, s, t in zip(told["shape"], strides, steps)):
        raise ArgumentError(f"{name}: strides with gaps, expected a contiguous array on a GPU")
    tensor = _fill(name, DTYPES[kind], told["data"][0], told["shape"], steps[: len(told["shape"])])
    tensor.keeps, tensor.device, tensor.stream = x, GPU, stream
    return tensor


def _of_numpy(name, x):
    if not isinstance(x, numpy.ndarray):
        if hasattr(x, "__cuda_array_interface__"):
            return _of_interface(name, x)
        if not hasattr(x, "__dlpack__"):
            raise ArgumentError(f"{name}: {type(x).__name__}, expected an array of NumPy or a tensor of PyTorch")
        try:
            x = numpy.from_dlpack(x)
        except (RuntimeError, BufferError, TypeError) as error:
            raise ArgumentError(f"{name}: {type(x).__name__} cannot be read on the CPU ({error})") from None
    kind = DTYPES.get(x.dtype)  # its name takes NumPy longer than all the rest of this
    if kind is None:
        if not x.dtype.isnative:
            raise ArgumentError(f"{name}: of foreign byte order, expected that of this machine")
        kind = _type_of(name, x.dtype.name)
    size = x.itemsize
    strides = [stride // size for stride in x.strides]
    if any(stride % size for stride in x.strides):
        x = numpy.ascontiguousarray(x)  # fields of records
        strides = [stride // size for stride in x.strides]
    tensor = _fill(name, kind, x.ctypes.data, x.shape, strides)
    tensor.keeps, tensor.device = x, None
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
    """The argument as a struct, if what is written there reaches it, and each element alone."""
    if torch_of(x):
        if x.device.type == "cuda" and not x.is_contiguous():
            raise ArgumentError(f"{name}: strides with gaps, expected a contiguous tensor on a GPU, to write to")
        if x.is_neg():
            raise ArgumentError(f"{name}: negated when it is read, expected resolve_neg() of it, to write to")
    elif hasattr(x, "__cuda_array_interface__"):
        if x.__cuda_array_interface__["data"][1]:
            raise ArgumentError(f"{name}: read-only, expected an array that can be written")
    else:
        if not isinstance(x, numpy.ndarray):
            raise ArgumentError(f"{name}: {type(x).__name__}, expected an array of NumPy to write to")
        if not x.flags.writeable or any(stride % x.itemsize for stride in x.strides):
            raise ArgumentError(f"{name}: read-only, or a part of records, expected an array that can be written")
    tensor = required(name, x)
    shape, strides = tuple(tensor.shape[: tensor.ndim]), tuple(tensor.strides[: tensor.ndim])
    if _shares_elements(shape, strides):
        raise ArgumentError(
            f"{name}: shape {shape} with strides {strides}, expected elements that share no memory, as a copy has them"
        )
    return tensor


def _shares_elements(shape, strides):
    """Whether a dimension steps into what the dimensions of smaller strides reach; so do all arrays of that kind, and
    besides them only arrays whose rows lie in the gaps of others."""
    reach = 0
    for stride, n in sorted((abs(stride), n) for stride, n in zip(strides, shape) if n > 1):
        if stride <= reach:
            return 0 not in shape
        reach += stride * (n - 1)
    return False


class _Place:
    """The memory of a struct, as NumPy asks for it; the bytes do not matter, so that no type has to have a name."""

    def __init__(self, tensor):
        size = SIZES[tensor.type]
        shape, strides = tensor.shape[: tensor.ndim], tensor.strides[: tensor.ndim]
        strides = tuple(size * stride for stride in strides)
        data = (tensor.data or 0, True)
        self.__array_interface__ = {
            "version": 3, "data": data, "shape": tuple(shape), "strides": strides, "typestr": f"|V{size}"
        }


def check_apart(name, written, inputs):
    """Refuses inputs, structs by name, that the call would change while it reads them: part of what it writes to."""
    place = numpy.asarray(_Place(written))
    for other, tensor in inputs.items():
        if tensor is not None and _overlap(place, numpy.asarray(_Place(tensor))):
            raise ArgumentError(f"{other}: shares memory with {name}, which is written, expected memory of its own")


def _overlap(a, b):
    """Exactly, but where that would take NumPy long: then whether their ranges of addresses meet."""
    try:
        return numpy.shares_memory(a, b, max_work=1000)
    except RuntimeError:
        return numpy.may_share_memory(a, b)


def copied(name, x):
    """A copy of an array, of its kind."""
    if torch_of(x):
        return x.detach().clone()
    if hasattr(x, "__cuda_array_interface__"):
        raise ArgumentError(f"{name}: an array on a GPU that is not PyTorch's, expected inplace=True, or a copy and that")
    return numpy.array(_of_numpy(name, x).keeps)


def call_where(name, arguments, inputs, results):
    """Calls causeway_NAME where the inputs are, on the stream that PyTorch works on there, or that the arrays say; the
    results are there too."""
    devices = {str(tensor.device): tensor.device for tensor in inputs if tensor is not None}
    if list(devices) == ["None"]:
        return call(name, *arguments)
    if len(devices) > 1:
        raise ArgumentError(f"{name}: arrays on {', '.join(devices).replace('None', 'the CPU')}, expected one device")
    ((_, device),) = devices.items()
    if not hasattr(LIBRARY, "causeway_gpu_" + name):
        raise ArgumentError(f"{name}: not there on a GPU, expected tensors on the CPU")
    torch = sys.modules.get("torch") if device is not GPU else None
    stream = torch.cuda.current_stream(device).cuda_stream if torch else _stream_of(name, inputs)
    stream = stream or DEFAULT_STREAM
    call("gpu_" + name, *arguments, None if stream == DEFAULT_STREAM else stream)
    for tensor in results:
        if tensor is not None:
            tensor.device, tensor.stream = device, stream


DEFAULT_STREAM = 1  # as __cuda_array_interface__ and CUDA number the one that is NULL in C


def _stream_of(name, inputs):
    """The stream that all arrays are ready on, of those that say one."""
    streams = {tensor.stream for tensor in inputs if tensor is not None and tensor.stream is not None}
    if len(streams) > 1:
        raise ArgumentError(f"{name}: arrays of the streams {', '.join(map(str, sorted(streams)))}, expected one stream")
    return streams.pop() if streams else None


class DeviceArray:
    """A result on a GPU, for whatever reads __cuda_array_interface__; its memory is given back with it."""

    def __init__(self, tensor, dtype):
        self._tensor = tensor
        self.shape = tuple(tensor.shape[: tensor.ndim])
        self.__cuda_array_interface__ = {
            "version": 3, "data": (tensor.data or 0, False), "shape": self.shape, "typestr": dtype, "strides": None,
            "stream": tensor.stream,
        }

    def __del__(self, release=LIBRARY.causeway_release):
        release(self._tensor)


class _Memory:
    """The library's memory, as NumPy asks for it; given back when no array looks at it any more."""

    def __init__(self, tensor, dtype):
        self.tensor = tensor
        shape = tuple(tensor.shape[: tensor.ndim])
        self.__array_interface__ = {"version": 3, "data": (tensor.data, False), "shape": shape, "typestr": dtype}

    def __del__(self, release=LIBRARY.causeway_release):
        release(self.tensor)


# As NumPy writes them; what it has no name for it holds as bits.
TYPE_STRINGS = [numpy.dtype(name).str for name in NAMES[:3]] + [numpy.dtype("int16").str]


def taken(tensor, torch=None):
    """A result as an array of NumPy, or a tensor of torch, over the library's memory."""
    name = NAMES[tensor.type]
    if device := getattr(tensor, "device", None):
        array = DeviceArray(tensor, TYPE_STRINGS[tensor.type])
        if torch:
            array = torch.as_tensor(array, device=device)
            return array.view(torch.bfloat16) if name == "bfloat16" else array
        return array
    array = numpy.asarray(_Memory(tensor, TYPE_STRINGS[tensor.type]))
    if torch:
        array = torch.from_numpy(array)
        return array.view(torch.bfloat16) if name == "bfloat16" else array
    if name == "bfloat16":
        import ml_dtypes  # which the input of this type came from

        return array.view(ml_dtypes.bfloat16)
    return array
