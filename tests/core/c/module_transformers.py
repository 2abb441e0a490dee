"""Holds the hook for Transformers to Transformers' own forms. The folder of the module is the argument."""

import copy
import sys

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3NextConfig, Qwen3NextForCausalLM

sys.path.insert(0, sys.argv[1])
import causeway  # noqa: E402
from causeway.transformers import restore, use  # noqa: E402

transformers.logging.set_verbosity_error()
torch.manual_seed(1)
sizes = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 8}
hybrid = Qwen3NextConfig(
    **sizes, num_hidden_layers=4, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=8,
    linear_value_head_dim=6, num_experts=2, num_experts_per_tok=1, moe_intermediate_size=16,
    shared_expert_intermediate_size=16)
ids = torch.randint(0, 50, (2, 90))


def loss_and_gradients(model):
    model.zero_grad()
    out = model(ids, labels=ids)
    out.loss.backward()
    return out.logits.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def compare(model, layers):
    """Logits, gradients and generated text with our kernels and without; and that ours really ran."""
    plain, gradients = loss_and_gradients(model)
    text = model.generate(ids[:1], max_new_tokens=20, do_sample=False)
    other = type(model)(copy.deepcopy(model.config)).eval()  # of the same file, and left alone
    of_other = other(ids).logits
    assert use(model) == layers, use(model)
    ours, of_ours = loss_and_gradients(model)
    assert not torch.equal(plain, ours), "not one bit differs: nothing was replaced"
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-6)
    assert gradients.keys() == of_ours.keys()
    for name, gradient in gradients.items():
        error = (of_ours[name] - gradient).abs().max().item()
        assert error <= 1e-4 * gradient.abs().max().item() + 1e-7, f"{name}: {error}"
    assert torch.equal(model.generate(ids[:1], max_new_tokens=20, do_sample=False), text)
    assert torch.equal(other(ids).logits, of_other)
    restore(model)
    assert torch.equal(loss_and_gradients(model)[0], plain)


compare(Qwen3NextForCausalLM(hybrid).eval(), {"linear": 3, "attention": 1})
llama = LlamaForCausalLM(LlamaConfig(**sizes, num_hidden_layers=2)).eval()
compare(llama, {"linear": 0, "attention": 2})

# Padding is refused, and a model that is left alone has its own kernels.
use(llama)
mask = torch.ones_like(ids)
mask[0, :5] = 0
try:
    llama(ids, attention_mask=mask)
except causeway.ArgumentError as error:
    assert "attention_mask: padding" in str(error), error
else:
    raise AssertionError("padding was not refused")
assert llama(ids, attention_mask=torch.ones_like(ids)).logits.shape == (2, 90, 50)
print("the hook holds")
