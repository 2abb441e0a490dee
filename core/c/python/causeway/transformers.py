"""causeway's kernels in a model of Hugging Face's Transformers.

    from causeway.transformers import use, restore
    use(model)  # gated delta rules and softmax attention are ours from now on; restore(model) takes them out again

A model whose linear attention is the gated delta rule (Qwen3-Next, Qwen3.5, Olmo Hybrid) calls `chunk_gated_delta_rule` and
`fused_recurrent_gated_delta_rule` of this module in its layers; its softmax attention, and that of any other model that
Transformers dispatches by name, is attention implementation "causeway". Gradients go through all of them.
"""

import contextvars
import functools
import sys

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from ._functions import linear_attention, linear_attention_step, softmax_attention
from ._library import ArgumentError

NAME = "causeway"
MOST_STEP_TOKENS = 16  # that linear_attention_step takes


def _gated_delta(query, key, value, g, beta, state, use_qk_l2norm_in_kernel, **options):
    """What both functions compute, from [batch, length, heads, width]; the scale is 1/sqrt(width), as there."""
    gates = torch.float64 if query.dtype == torch.float64 else torch.float32
    options.update(update="gated_delta", log_decay=g.to(gates), beta=beta.to(gates), scale=query.shape[-1] ** -0.5,
                   qk_l2norm=use_qk_l2norm_in_kernel, layout="bnhd")
    inputs = query, key.to(query.dtype), value.to(query.dtype)
    if state is not None:
        state = state.to(gates)
    tensors = [*inputs, g, beta] + [state] * (state is not None)
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if state is not None and not learns and query.shape[1] <= MOST_STEP_TOKENS and "cu_seqlens" not in options:
        if query.shape[1] == 1 or query.device.type == "cpu":
            return linear_attention_step(*inputs, state, **options)
    return linear_attention(*inputs, state=state, **options)


def chunk_gated_delta_rule(query, key, value, g, beta, chunk_size=64, initial_state=None, output_final_state=False,
                           use_qk_l2norm_in_kernel=False, cu_seqlens=None, **_):
    """S_t = e^g S_(t-1) + beta k (v - e^g S_(t-1)^T k)^T, o_t = S_t^T q / sqrt(width), as Transformers and fla call it.

    query, key: [batch, length, heads, d_k]; value: [batch, length, heads, d_v]; g, beta: [batch, length, heads]; the state
    is [batch, heads, d_k, d_v]. Returns the output and, with output_final_state, the state. The length of our chunks is our
    own: chunk_size changes nothing.
    """
    packed = {} if cu_seqlens is None else {"cu_seqlens": cu_seqlens}
    O, S = _gated_delta(query, key, value, g, beta, initial_state, use_qk_l2norm_in_kernel, **packed)
    return O, S if output_final_state else None


def fused_recurrent_gated_delta_rule(query, key, value, g, beta, initial_state=None, output_final_state=False,
                                     use_qk_l2norm_in_kernel=False, cu_seqlens=None, **_):
    """The same, for the tokens of a text that is being written."""
    return chunk_gated_delta_rule(query, key, value, g, beta, 64, initial_state, output_final_state,
                                  use_qk_l2norm_in_kernel, cu_seqlens)


def _sees_all_before(mask, N, M):
    """Whether a mask, True where a query sees a key, is the causal one of the last N of M positions."""
    expected = torch.ones(N, M, dtype=torch.bool, device=mask.device).tril(M - N)
    seen = mask if mask.dtype == torch.bool else mask == 0
    return mask.shape[-2:] == (N, M) and bool((seen == expected).all())


def attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **options):
    """Softmax attention as Transformers dispatches it: query [batch, heads, N, d], key and value [batch, heads, M, d]; the
    output is [batch, N, heads, d]. Padding, windows and dropout are refused."""
    for name in ("position_bias", "softcap", "s_aux"):
        if options.get(name) is not None:
            raise ArgumentError(f"{name}: given, expected plain softmax attention")
    if dropout:
        raise ArgumentError(f"dropout: {dropout}, expected 0, as model.eval() has it")
    N, M = query.shape[2], key.shape[2]
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if attention_mask is not None:
        causal = _sees_all_before(attention_mask, N, M)
        if not causal and not bool((attention_mask == (attention_mask.dtype == torch.bool)).all()):
            raise ArgumentError("attention_mask: padding or a window, expected texts of one length, each token of which "
                                "sees all before it")
    elif causal and N > 1 and M > N:
        key, value = key[:, :, :N], value[:, :, :N]  # a cache of fixed size, of which nothing is filled yet
    O = softmax_attention(query, key, value, causal=bool(causal) and N > 1, scale=scaling)
    return O.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attention_forward)
AttentionMaskInterface.register(NAME, sdpa_mask)

# The functions that a layer calls, by the names that files of models have for them.
RULES = {
    "chunk_gated_delta_rule": chunk_gated_delta_rule,
    "torch_chunk_gated_delta_rule": chunk_gated_delta_rule,
    "recurrent_gated_delta_rule": fused_recurrent_gated_delta_rule,
    "fused_recurrent_gated_delta_rule": fused_recurrent_gated_delta_rule,
    "torch_recurrent_gated_delta_rule": fused_recurrent_gated_delta_rule,
}
_ours = contextvars.ContextVar("causeway_transformers", default=False)  # whether a layer of a model in use runs


def _either(theirs, ours):
    """Ours within the layers of a model in use, theirs elsewhere: a file of models has one function for all of them."""
    @functools.wraps(theirs)
    def rule(*arguments, **options):
        return (ours if _ours.get() else theirs)(*arguments, **options)

    rule._causeway = True
    return rule


def _replace_in_file(layer):
    """Has the rules in the file of the layer's class ask for the layer that runs; returns whether there are any."""
    file = sys.modules[type(layer).__module__]
    names = [name for name in RULES if callable(getattr(file, name, None))]
    for name in names:
        theirs = getattr(file, name)
        if not hasattr(theirs, "_causeway"):
            setattr(file, name, _either(theirs, RULES[name]))
    return bool(names)


def _is_gated_delta(layer):
    return type(layer).__name__.endswith("GatedDeltaNet")


def _take_over(layer):
    """Has a layer use our rules: those that it holds itself, as in Transformers 4, or those of its file."""
    held = [name for name in RULES if name in vars(layer)]
    kept = {name: vars(layer)[name] for name in held}
    for name in held:
        setattr(layer, name, RULES[name])
    if not held:
        if not _replace_in_file(layer):
            raise ArgumentError(f"model: {type(layer).__name__} calls its rule by no name that is known")
        theirs = layer.forward
        if "forward" in vars(layer):
            kept["forward"] = theirs

        @functools.wraps(theirs)
        def forward(*arguments, **options):
            token = _ours.set(True)
            try:
                return theirs(*arguments, **options)
            finally:
                _ours.reset(token)

        layer.forward = forward
    layer._causeway_kept = kept


def use(model, *, attention=True, linear=True):
    """Puts our kernels into a model, and returns how many layers have them: {"linear": ..., "attention": ...}.

    linear: layers of the gated delta rule; attention: softmax attention, where Transformers dispatches it by name.
    """
    layers = [layer for layer in model.modules() if _is_gated_delta(layer)] if linear else []
    for layer in layers:
        if not hasattr(layer, "_causeway_kept"):
            _take_over(layer)
    softmax = 0
    if attention:
        if model.config._attn_implementation != NAME:
            model._causeway_attention = model.config._attn_implementation
            model.set_attn_implementation(NAME)
        softmax = sum(type(layer).__name__.endswith("Attention") for layer in model.modules())
    return {"linear": len(layers), "attention": softmax}


def restore(model):
    """Takes them out again."""
    for layer in model.modules():
        if not hasattr(layer, "_causeway_kept"):
            continue
        vars(layer).pop("forward", None)
        for name, theirs in layer._causeway_kept.items():
            setattr(layer, name, theirs)
        del layer._causeway_kept
    if hasattr(model, "_causeway_attention"):
        model.set_attn_implementation(model._causeway_attention)
        del model._causeway_attention
