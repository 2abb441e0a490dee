#!/usr/bin/env python3
"""A Llama from a GGUF file in NumPy's Float64, beside what causeway computes with the same weights in Float32.

The forward pass below is written from the model's definition and knows nothing of causeway; the weights are unpacked by
the package gguf. It checks the logits of a text's first tokens, and that causeway's likeliest token is the same after
each of the tokens that Float64 chooses greedily after the first 64. Optional: needs numpy and gguf from PyPI.

    python3 experiments/peers/llama_float64.py MODEL.gguf TEXT.txt [--tokens 512] [--greedy 64]
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from gguf import GGUFReader, dequantize
except ImportError as reason:
    raise SystemExit(f"llama_float64.py: {reason}: pip install numpy gguf")

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Llama:
    def __init__(self, path):
        reader = GGUFReader(path)
        field = lambda key: reader.fields["llama." + key].contents()
        self.weights = {
            t.name: np.asarray(dequantize(t.data, t.tensor_type), np.float64).reshape(tuple(map(int, reversed(t.shape))))
            for t in reader.tensors
        }
        self.layers = field("block_count")
        self.heads, self.key_heads = field("attention.head_count"), field("attention.head_count_kv")
        self.eps, self.theta = field("attention.layer_norm_rms_epsilon"), field("rope.freq_base")

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.weights[name + ".weight"]

    def split(self, x, heads):
        return x.reshape(len(x), heads, -1).transpose(1, 0, 2)

    def turn(self, x, first):
        """Pairs (2i, 2i + 1) of token p turned by p theta^(-2i/d)."""
        d = x.shape[-1]
        angle = np.arange(first, first + x.shape[1])[:, None] * self.theta ** (-np.arange(0, d, 2) / d)
        even, odd, y = x[..., 0::2], x[..., 1::2], np.empty_like(x)
        y[..., 0::2] = even * np.cos(angle) - odd * np.sin(angle)
        y[..., 1::2] = even * np.sin(angle) + odd * np.cos(angle)
        return y

    def forward(self, ids, cache):
        """Logits of `ids`, which come after those in the cache: a list of (k, v), one a layer, at first empty."""
        w, first = self.weights, cache[0][0].shape[1] if cache else 0
        x = w["token_embd.weight"][ids]
        for layer in range(self.layers):
            at = f"blk.{layer}."
            h = self.norm(x, at + "attn_norm")
            q = self.turn(self.split(h @ w[at + "attn_q.weight"].T, self.heads), first)
            k = self.turn(self.split(h @ w[at + "attn_k.weight"].T, self.key_heads), first)
            v = self.split(h @ w[at + "attn_v.weight"].T, self.key_heads)
            if layer < len(cache):
                k, v = (np.concatenate(pair, 1) for pair in zip(cache[layer], (k, v)))
                cache[layer] = k, v
            else:
                cache.append((k, v))
            shared = self.heads // self.key_heads
            scores = q @ np.repeat(k, shared, 0).transpose(0, 2, 1) / np.sqrt(q.shape[-1])
            seen = np.arange(k.shape[1]) <= np.arange(first, first + len(ids))[:, None]
            p = np.exp(np.where(seen, scores, -np.inf) - np.where(seen, scores, -np.inf).max(-1, keepdims=True))
            o = (p / p.sum(-1, keepdims=True)) @ np.repeat(v, shared, 0)
            x = x + o.transpose(1, 0, 2).reshape(len(ids), -1) @ w[at + "attn_output.weight"].T
            h = self.norm(x, at + "ffn_norm")
            gate = h @ w[at + "ffn_gate.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w[at + "ffn_up.weight"].T)) @ w[at + "ffn_down.weight"].T
        return self.norm(x, "output_norm") @ w.get("output.weight", w["token_embd.weight"]).T


def causeway(lua):
    done = subprocess.run([ROOT / "lab", "-e", lua], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr or done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--greedy", type=int, default=64)
    given = parser.parse_args()
    model, text = pathlib.Path(given.model).resolve(), pathlib.Path(given.text).resolve()
    with tempfile.TemporaryDirectory() as folder:
        load = f'local m = model("{model}")\n'
        causeway(
            load + f'local ids = m:tokens(io.open("{text}"):read("a"))\n'
            f"ids = table.move(ids, 1, math.min(#ids, {given.tokens}), 1, {{}})\n"
            f'save("{folder}/ids.npy", tensor(ids)) save("{folder}/logits.npy", m:logits(ids))'
        )
        ids = np.load(f"{folder}/ids.npy").astype(int).ravel()
        mine = np.load(f"{folder}/logits.npy").astype(np.float64)
        llama = Llama(model)
        exact = llama.forward(ids, [])
        print(f"{len(ids)} tokens: largest difference {abs(mine - exact).max() / abs(exact).max():.1e} of the largest logit")

        prompt, cache = list(ids[:64]), []
        logits, chosen = llama.forward(prompt, cache), []
        for _ in range(given.greedy):
            chosen.append(int(logits[-1].argmax()))
            logits = llama.forward(chosen[-1:], cache)
        whole = ",".join(map(str, prompt + chosen))
        causeway(load + f'save("{folder}/greedy.npy", m:logits({{{whole}}}))')
        likeliest = np.load(f"{folder}/greedy.npy").argmax(-1)[len(prompt) - 1 : -1]
        print(f"{int((likeliest == chosen).sum())} of {given.greedy} greedy tokens are the same")


main()
