#!/usr/bin/env python3
"""Makes the files of tests/data/oracles: what the reference forms of other libraries compute, with their gradients.

    pip install torch einops transformers==5.23.0 && pip download --no-deps fla-core==0.6.0 transformers==5.23.0
    unzip both wheels into FOLDER, put mamba_ssm/modules/ssd_minimal.py of github.com/state-spaces/mamba (commit e9594ce)
    and tests/ref_gdr.py with flash_qla/utils of github.com/QwenLM/FlashQLA (commit c18a486) there, and run:
    python3 make.py FOLDER [WORD]       WORD: only the files whose names have it

Their functions are loaded from their files, which need nothing but torch and einops; nothing of them is kept here but
the numbers that they return. Inputs are Float32 drawn with fixed seeds; names and layouts are those of the library.
Gradients are those of <o, do> + <last state, dht> by torch's reverse mode, or by the library's own backward pass.
"""
import ast
import importlib.util
import json
import math
import os
import struct
import sys
import types

import torch
import torch.nn.functional as F
from einops import rearrange, repeat

folder = os.path.abspath(sys.argv[1])
word = sys.argv[2] if len(sys.argv) > 2 else ""
os.chdir(os.path.dirname(os.path.abspath(__file__)))


def module(path):
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), os.path.join(folder, path))
    out = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(out)
    return out


def functions(path, names):
    """These functions of a file whose other parts need more than torch."""
    with open(os.path.join(folder, path)) as file:
        tree = ast.parse(file.read())
    scope = {"torch": torch, "F": F, "rearrange": rearrange, "repeat": repeat, "math": math,
             "is_torchdynamo_exporting": lambda: False}
    kept = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in names]
    for function in kept:
        function.decorator_list = []
    exec(compile(ast.Module(kept, []), path, "exec"), scope)
    return [scope[name] for name in names]


def save(name, tensors, metadata):
    """A .safetensors file: the length of the header, the header, the elements."""
    header, body = {"__metadata__": metadata}, b""
    for key, x in tensors.items():
        data = struct.pack("<%df" % x.numel(), *x.detach().float().reshape(-1).tolist())
        header[key] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    with open(name + ".safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def inputs(seed, T=33, H=2, HV=2, K=8, V=6, gate=None, channels=False, beta=False, state=True):
    """Named as in fla. gate: the size of the log decays, or a list of which they are drawn."""
    torch.manual_seed(seed)
    x = {"q": torch.randn(1, T, H, K), "k": F.normalize(torch.randn(1, T, H, K), dim=-1), "v": torch.randn(1, T, HV, V)}
    if gate is not None:
        shape = (1, T, HV, K) if channels else (1, T, HV)
        x["g"] = -gate * torch.randn(shape).abs() if not isinstance(gate, list) \
            else torch.tensor(gate)[torch.randint(len(gate), shape)]
    if beta:
        x["beta"] = torch.rand(1, T, HV)
    if state:
        x["initial_state"] = torch.randn(1, HV, K, V)
    return x


def case(name, source, f, x, **more):
    """f(**x) -> o, last state."""
    if word not in name:
        return
    leaves = {key: value.clone().requires_grad_() for key, value in x.items()}
    o, last = f(**leaves)
    do, dht = torch.randn(o.shape), torch.randn(last.shape)
    ((o * do).sum() + (last * dht).sum()).backward()
    gradients = {"d" + key: value.grad for key, value in leaves.items()}
    save(name, {**x, "o": o, "final_state": last, "do": do, "dht": dht, **gradients, **more}, {"source": source})


def of_heads_first(f):
    return lambda **x: f(x["q"], x["k"], x["v"], x["beta"], initial_state=x["initial_state"])


STRONG = [0.0, -0.1, -60.0, -1000.0, -math.inf]
last = {"output_final_state": True}

# ── flash-linear-attention ──

fla = "fla-core 0.6.0, "
linear = module("fla/ops/linear_attn/naive.py").naive_recurrent_linear_attn
case("fla_linear", fla + "naive_recurrent_linear_attn", lambda **x: linear(**x, **last), inputs(1))

simple = module("fla/ops/simple_gla/naive.py").naive_recurrent_simple_gla
case("fla_simple_gla", fla + "naive_recurrent_simple_gla", lambda **x: simple(**x, **last), inputs(2, gate=0.3))
case("fla_simple_gla_strong", fla + "naive_recurrent_simple_gla", lambda **x: simple(**x, **last), inputs(3, gate=STRONG))

gla = module("fla/ops/gla/naive.py").naive_recurrent_gla
for_gla = lambda q, k, v, g, initial_state: gla(q, k, v, g, initial_state=initial_state, **last)
case("fla_gla", fla + "naive_recurrent_gla", for_gla, inputs(4, gate=0.3, channels=True))
case("fla_gla_strong", fla + "naive_recurrent_gla", for_gla, inputs(5, gate=STRONG, channels=True))

delta = module("fla/ops/delta_rule/naive.py").delta_rule_recurrence


def for_delta(q, k, v, beta, initial_state):
    o, S = delta(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), beta.transpose(1, 2), initial_state, True)
    return o.transpose(1, 2), S


case("fla_delta", fla + "delta_rule_recurrence", for_delta, inputs(6, beta=True))

gdn = module("fla/ops/gated_delta_rule/naive.py").naive_recurrent_gated_delta_rule
case("fla_gated_delta", fla + "naive_recurrent_gated_delta_rule", lambda **x: gdn(**x, **last),
     inputs(7, gate=0.3, beta=True))
case("fla_gated_delta_strong", fla + "naive_recurrent_gated_delta_rule", lambda **x: gdn(**x, **last),
     inputs(8, gate=STRONG, beta=True))

kda = module("fla/ops/kda/naive.py").naive_recurrent_kda
case("fla_kda_grouped_values", fla + "naive_recurrent_kda", lambda **x: kda(**x, **last),
     inputs(9, HV=4, gate=0.3, channels=True, beta=True))
case("fla_kda_strong", fla + "naive_recurrent_kda", lambda **x: kda(**x, **last),
     inputs(10, gate=STRONG, channels=True, beta=True))

# ── transformers ──

hf = "transformers 5.23.0, "
_, chunk = functions("transformers/models/qwen3_next/modeling_qwen3_next.py", ["l2norm", "torch_chunk_gated_delta_rule"])
for_hf = lambda q, k, v, g, beta, initial_state: chunk(q, k, v, g, beta, chunk_size=16, initial_state=initial_state, **last)
case("hf_gated_delta_grouped_values", hf + "torch_chunk_gated_delta_rule of qwen3_next", for_hf,
     inputs(11, HV=4, gate=0.3, beta=True))

_, chunk_kda = functions("transformers/models/kimi_linear/modeling_kimi_linear.py", ["l2norm", "chunk_kimi_delta_attention"])
for_kda = lambda q, k, v, g, beta, initial_state: chunk_kda(q, k, v, g, beta, chunk_size=16, initial_state=initial_state, **last)
case("hf_kda", hf + "chunk_kimi_delta_attention of kimi_linear", for_kda,
     inputs(12, HV=2, gate=0.3, channels=True, beta=True))

# ── mamba ──

_, _, ssd = functions("ssd_minimal.py", ["segsum", "segsum_unstable", "ssd_minimal_discrete"])


def for_ssd(q, k, v, g, initial_state):
    y, S = ssd(v, g, k, q, 8, initial_state.transpose(-1, -2)[:, None])
    return y, S.transpose(-1, -2)


case("mamba_ssd", "mamba e9594ce, ssd_minimal_discrete", for_ssd, inputs(13, T=32, H=1, HV=3, gate=0.3))

# ── FlashQLA ──

if word in "flashqla":
    # Of its utils the file needs these, which stand in files that need no GPU, or in one that asks for one when loaded.
    pack = module("flash_qla/utils/pack.py")
    offsets, = functions("flash_qla/utils/index.py", ["prepare_chunk_offsets"])
    utils = types.ModuleType("flash_qla.utils")
    for name in ["pad_and_reshape", "pack", "unpack", "fill_last_chunk_of_g"]:
        setattr(utils, name, getattr(pack, name))
    utils.prepare_chunk_offsets = offsets
    sys.modules["flash_qla"] = types.ModuleType("flash_qla")
    sys.modules["flash_qla.utils"] = utils
    # Its tests run it in Float64, as the inverse of a chunk's triangle loses digits in Float32.
    qla = module("tests/ref_gdr.py").chunk_gated_delta_rule
    qla_source = "FlashQLA c18a486, tests/ref_gdr.py, its own backward pass"

    def for_qla(offsets=None):
        cu_seqlens = None if offsets is None else torch.tensor(offsets)
        def run(q, k, v, g, beta, initial_state):
            x = [a.double() for a in (q, k, v, g, beta)]
            o, S = qla(*x, initial_state=initial_state.double(), output_final_state=True, cu_seqlens=cu_seqlens)
            return o.float(), S.float()
        return run

    def sized(seed, sequences=1, **sizes):
        x = inputs(seed, K=8, V=8, gate=0.3, beta=True, **sizes)
        x["initial_state"] = torch.randn(sequences, *x["initial_state"].shape[1:])
        return x

    case("flashqla", qla_source, for_qla(), sized(14, T=70))
    case("flashqla_grouped_values", qla_source, for_qla(), sized(15, T=70, HV=4))
    case("flashqla_packed", qla_source, for_qla([0, 5, 69, 70, 90]), sized(16, 4, T=90, HV=4),
         cu_seqlens=torch.tensor([0.0, 5, 69, 70, 90]))

# ── a whole model of transformers ──

if word in "qwen3_next":
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    torch.manual_seed(17)
    config = Qwen3NextConfig(
        vocab_size=40, hidden_size=24, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
        linear_value_head_dim=6, linear_conv_kernel_dim=4, num_experts=0, mlp_only_layers=[0, 1, 2],
        layer_types=["linear_attention", "full_attention", "linear_attention"], max_position_embeddings=128,
        tie_word_embeddings=False)
    config._attn_implementation = "eager"
    model = Qwen3NextForCausalLM(config).float().eval()
    with torch.no_grad():
        for name, x in model.named_parameters():
            # Matrices of products near 1, gates that forget something, norms that are not all alike.
            if x.dim() > 1:
                x.normal_(0, 1 / math.sqrt(x[0].numel()))
            elif name.endswith("A_log"):
                x.uniform_(-2, 1)
            else:
                x.add_(0.2 * torch.randn(x.shape))
        ids = torch.randint(40, (1, 70))
        prefill = model(ids, use_cache=False).logits[0]
        cache, steps = None, []
        for t in range(ids.shape[1]):
            out = model(ids[:, t:t + 1], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            steps.append(out.logits[0, 0])
        steps = torch.stack(steps)
    assert (prefill - steps).abs().max() < 1e-4 * prefill.abs().max()
    os.makedirs("qwen3_next", exist_ok=True)
    save("qwen3_next/model", {name: x for name, x in model.state_dict().items()}, {"format": "pt"})
    save("qwen3_next/expected", {"ids": ids[0].float(), "prefill": prefill, "steps": steps},
         {"source": hf + "Qwen3NextForCausalLM of random weights, the text at once and token by token"})
    with open("qwen3_next/config.json", "w") as file:
        kept = {key: value for key, value in config.to_dict().items()
                if isinstance(value, (int, float, str, bool, list, dict)) and not key.startswith("_")}
        json.dump(kept, file, indent=1, sort_keys=True)
        file.write("\n")
