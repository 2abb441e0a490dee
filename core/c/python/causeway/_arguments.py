"""Arguments of the calls, checked, and what becomes of their results: what the families of calls share."""

import ctypes
import operator

import numpy

from ._arrays import check_apart, check_no_gradient, optional, required, taken, writable
from ._library import ArgumentError, Tensor

LAYOUTS = ("bhnd", "bnhd")
OFFSETS = {"cu_seqlens": "offsets", "state_indices": "slots"}  # what the numbers of such a list are


def text(name, value):
    if value is None:
        return None
    if not isinstance(value, str) or "\0" in value:  # C would read what stands before a zero byte
        raise ArgumentError(f"{name}: {value!r}, expected a name")
    return value.encode()


def shown(value):
    """What came, for a sentence: numbers and texts as they are, of all else, which may be long, the type."""
    return repr(value) if isinstance(value, (bool, float, int, str)) else type(value).__name__


def whole(name, value, least, most):
    """A whole number in a range, that of its member of a struct: ctypes would drop the bits that do not fit."""
    try:
        number = operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # the last two from arrays and tensors of several elements
        raise ArgumentError(f"{name}: {shown(value)}, expected a whole number") from None
    if number < least:
        raise ArgumentError(f"{name}: {number}, expected {least} or more")
    if number > most:
        raise ArgumentError(f"{name}: {number}, expected {most} or less")
    return number


def count(name, value):
    """A whole number from 1 on; None is 0, the default of the library."""
    return 0 if value is None else whole(name, value, 1, 2**63 - 1)


def number(name, value):
    """A number, without a gradient of its own, or None."""
    if value is None:
        return None
    check_no_gradient(f"the {name}", {name: value})
    try:
        return ctypes.c_double(value).value
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError(f"{name}: {shown(value)}, expected a number") from None
    except OverflowError:
        raise ArgumentError(f"{name}: a whole number beyond 1.8e308, expected a smaller one") from None


def several(name, values):
    """The elements of a list, an array or a tensor of one dimension; those of tensors without one gradient each."""
    if hasattr(values, "tolist"):
        check_no_gradient(f"the {name}", {name: values})
        values = values.tolist()
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        return None
    values = list(values)
    if not values:
        raise ArgumentError(f"{name}: empty, expected None where there is none")
    return values


def double(number):
    return None if number is None else ctypes.pointer(ctypes.c_double(number))


def pointer_to(struct):
    """None has none."""
    return None if struct is None else ctypes.pointer(struct)


def turned(x, layout):
    """[batch, length, heads, ...] as [batch, heads, length, ...], or back; no copy."""
    if layout == "bnhd" and hasattr(x, "__dlpack__") and not hasattr(x, "swapaxes"):
        x = numpy.from_dlpack(x)
    return x.swapaxes(1, 2) if layout == "bnhd" and hasattr(x, "swapaxes") else x


def heads_first(layout, first, *others):
    """Arguments of that layout as the library has them; the first one has to have all four dimensions."""
    if layout not in LAYOUTS:
        raise ArgumentError(f"layout: {layout!r}, expected one of {', '.join(LAYOUTS)}")
    if layout == "bnhd" and len(getattr(first, "shape", "bnhd")) != 4:
        raise ArgumentError(f"layout: 'bnhd', but the first array is {tuple(first.shape)}, expected 4 dimensions")
    for x in others:
        if layout == "bnhd" and len(getattr(x, "shape", "bnhd")) < 3:
            raise ArgumentError(f"layout: 'bnhd', but an array is {tuple(x.shape)}, expected 3 or 4 dimensions")
    return [turned(x, layout) for x in (first, *others)]


def sequences_of(cu_seqlens, state_indices, inplace, checkpoint_every, deterministic):
    """The options of packed sequences, pools and checkpoints, checked."""
    return {"cu_seqlens": offsets("cu_seqlens", cu_seqlens), "state_indices": offsets("state_indices", state_indices),
            "inplace": bool(inplace), "checkpoint_every": count("checkpoint_every", checkpoint_every),
            "deterministic": deterministic}


def fill_sequences(options, given):
    """Puts them into a struct; returns the place of the checkpoints, or None."""
    for name in ("cu_seqlens", "state_indices"):
        setattr(options, name, (ctypes.c_int64 * len(given[name]))(*given[name]))
        setattr(options, name + "_count", len(given[name]))
    options.inplace, options.checkpoint_every = given["inplace"], given["checkpoint_every"]
    options.deterministic = text("deterministic", given["deterministic"])
    checkpoints = Tensor() if given["checkpoint_every"] else None
    options.checkpoints = pointer_to(checkpoints)
    return checkpoints


def first_state(state, given, inputs):
    """The state to start from, as a struct; in place it must be written to, and nothing else may lie there."""
    if not given["inplace"]:
        return optional("state", state)
    if state is None:
        raise ArgumentError("inplace: true, but no state is given, expected one to write to")
    written = writable("state", state)
    check_apart("state", written, inputs)
    return written


def check_states(what, given, tensors):
    """Refuses gradients that pools and checkpoints would drop."""
    if given["inplace"]:
        check_no_gradient(f"{what} in place", tensors)
    if given["checkpoint_every"]:
        check_no_gradient(f"{what} with checkpoints", tensors)
    if given["state_indices"]:
        check_no_gradient("a pool", {"state": tensors["state"]})


def offsets(name, numbers):
    """Where sequences begin and end, or their slots, as a list of its own, so that the gradient sees those of the
    forward pass."""
    if numbers is None:
        return []
    found = several(name, numbers)
    if found is None:
        raise ArgumentError(f"{name}: {shown(numbers)}, expected a list of {OFFSETS.get(name, 'numbers')}")
    return [whole(f"{name}[{i}]", offset, 0, 2**63 - 1) for i, offset in enumerate(found)]


def structs(**arrays):
    """Arrays as structs, by their names."""
    return {name: required(name, x) for name, x in arrays.items()}


def sequence_results(state, given, O, S, checkpoints, torch):
    """What a call of whole sequences returns: the output, the state, which in place is the given one, checkpoints."""
    S = state if given["inplace"] else taken(S, torch) if S is not None else None
    return taken(O, torch), S, taken(checkpoints, torch) if checkpoints is not None else None
