"""Causal attention in linear time on NumPy arrays and PyTorch tensors.

    import causeway
    O, state = causeway.linear_attention(q, k, v, update="gated", log_decay=g)

Arrays are [batch, heads, length, width], or without the leading dimensions; layout="bnhd" takes [batch, length, heads,
width]. Memory on the CPU is read where it lies, whatever its strides, and results are in memory of the library's: no
copy is made of contiguous arrays. NumPy arrays, and what has __dlpack__, give NumPy arrays; tensors of PyTorch give
such tensors, with gradients. Options are those of the shell (`causeway -e '?linear_attention'`), but for the states
after each token of a step and several workers. Ctrl-C ends a call that runs in the main thread.
"""

from ._around import decay_gate, l2norm, rms_norm, short_convolution
from ._functions import (
    causal_linear_attention,
    causal_linear_attention_grad,
    linear_attention,
    linear_attention_grad,
    linear_attention_step,
    lowrank,
    names,
    set_threads,
    softmax_attention,
    softmax_attention_grad,
    threads,
)
from ._general import general_linear_attention, general_linear_attention_grad, general_linear_attention_step
from ._library import ArgumentError, Error, InterruptedCallError, OutOfMemoryError, version

__version__ = version()
__all__ = [
    "ArgumentError",
    "Error",
    "InterruptedCallError",
    "OutOfMemoryError",
    "causal_linear_attention",
    "causal_linear_attention_grad",
    "decay_gate",
    "general_linear_attention",
    "general_linear_attention_grad",
    "general_linear_attention_step",
    "l2norm",
    "linear_attention",
    "linear_attention_grad",
    "linear_attention_step",
    "lowrank",
    "names",
    "rms_norm",
    "set_threads",
    "short_convolution",
    "softmax_attention",
    "softmax_attention_grad",
    "threads",
]
