"""Causal attention in linear time on NumPy arrays and PyTorch tensors.

    import causeway
    O, state = causeway.linear_attention(q, k, v, update="gated", log_decay=g)

Arrays are [batch, heads, length, width], or without the leading dimensions; layout="bnhd" takes [batch, length, heads,
width]. Memory on the CPU is read where it lies, whatever its strides, and results are in memory of the library's: no
copy is made of contiguous arrays. NumPy arrays, and what has __dlpack__, give NumPy arrays; tensors of PyTorch give
such tensors, with gradients. Options are those of the shell (`causeway -e '?linear_attention'`), but for pools of states,
checkpoints, states after each token, and packed sequences outside of linear_attention. Not there either: the general
rule, short convolutions, norms and gates of models.
"""

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
from ._library import ArgumentError, Error, OutOfMemoryError, version

__version__ = version()
__all__ = [
    "ArgumentError",
    "Error",
    "OutOfMemoryError",
    "causal_linear_attention",
    "causal_linear_attention_grad",
    "linear_attention",
    "linear_attention_grad",
    "linear_attention_step",
    "lowrank",
    "names",
    "set_threads",
    "softmax_attention",
    "softmax_attention_grad",
    "threads",
]
