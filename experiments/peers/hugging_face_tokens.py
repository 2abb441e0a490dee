#!/usr/bin/env python3
"""Token ids beside those of Hugging Face's tokenizers, on ten million bytes of code, digits, CJK, emoji, combining marks,
control characters and blanks; and texts of broken UTF-8, which only have to come back as they were.

Optional: needs tokenizers from PyPI (and gguf for --gguf), and the built program; without them it says so and ends. The
tokenizers are the small trained ones of tests/data/tokenizer (gpt2, smollm, llama3, qwen2) and, with --gguf FILE, that
of a model, from its metadata.

    python3 experiments/peers/hugging_face_tokens.py [--megabytes 10] [--gguf FILE.gguf] [--program build/causeway]
"""
import argparse
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--megabytes", type=float, default=10)
parser.add_argument("--gguf")
parser.add_argument("--program", default=str(root / "build/causeway"))
options = parser.parse_args()

try:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
except ImportError as reason:
    raise SystemExit(f"hugging_face_tokens.py: tokenizers is not here: {reason}")
if not pathlib.Path(options.program).exists():
    raise SystemExit(f"hugging_face_tokens.py: {options.program} is not built: ./lab build")


def mixed_text(size):
    """The same text every time; characters of Unicode 14 and before."""
    draw = random.Random(17)
    files = [p for ending in ("*.cpp", "*.lua", "*.md", "*.py") for p in sorted(root.glob("[cdelt]*/**/" + ending))]
    code = "".join(p.read_text(errors="ignore") for p in files[:400])
    ranges = [(0x4E00, 0x9FFF), (0x3040, 0x30FF), (0xAC00, 0xD7A3), (0x1F300, 0x1F5FF), (0x1F600, 0x1F64F),
              (0x0400, 0x04FF), (0x0600, 0x06FF), (0x0900, 0x097F), (0x0300, 0x036F), (0x00A0, 0x024F)]
    parts, length = [], 0
    while length < size:
        kind = draw.randrange(6)
        if kind < 2:
            at = draw.randrange(len(code) - 2000)
            part = code[at:at + draw.randrange(20, 2000)]
        elif kind == 2:
            part = "".join(draw.choice("0123456789.,-+eE %$") for _ in range(draw.randrange(1, 60)))
        elif kind == 3:
            low, high = draw.choice(ranges)
            part = "".join(chr(draw.randint(low, high)) for _ in range(draw.randrange(1, 80)))
        elif kind == 4:
            part = draw.choice(["\u200d", "\ufe0f", "👩\u200d👩\u200d👧", "e\u0301", "\r\n", "\t\t", "   ", "\n\n\n", "\x00",
                                "\x7f", "'s 'LL 're", "\u3000", "\u2028"]) * draw.randrange(1, 5)
        else:
            part = draw.choice(["The ", "don't ", "WORLD's ", "ÀÉÎ ", "naïve ", "x=", "::", "</p>"]) * draw.randrange(1, 4)
        parts.append(part)
        length += len(part.encode())
    return "".join(parts)


def ids_of(folder, name, text):
    """What m:tokens gives for the text, in pieces as the caller cut them, and whether each comes back."""
    source, out = folder / "text", folder / "ids"
    source.write_bytes(text)
    script = folder / "tokens.lua"
    script.write_text(f'''
local m = model("{name}")
local text = io.open("{source}", "rb"):read("a")
local ids = m:tokens(text, {{special = true}})
assert(m:text(ids):sub(-#text) == text, "the text does not come back") -- a token may stand in front
local out = io.open("{out}", "wb")
for i = 1, #ids do out:write(string.pack("<I4", ids[i])) end
out:close()
''')
    run = subprocess.run([options.program, str(script)], capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{name}: {run.stderr.strip()}")
    data = out.read_bytes()
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def of_gguf(path):
    from gguf import GGUFReader
    fields = GGUFReader(path).fields
    tokens, merges = (fields["tokenizer.ggml." + key].contents() for key in ("tokens", "merges"))
    t = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    return t


def main():
    text = mixed_text(int(options.megabytes * 1e6))
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        kinds = {}
        for kind in ("gpt2", "smollm", "llama3", "qwen2"):
            model = folder / kind  # a model that takes any tokenizer beside it
            shutil.copytree(root / "experiments/data/tiny-llama", model)
            shutil.copy(root / f"tests/data/tokenizer/{kind}.json", model / "tokenizer.json")
            kinds[str(model)] = (kind, Tokenizer.from_file(str(model / "tokenizer.json")))
        if options.gguf:
            kinds[options.gguf] = (pathlib.Path(options.gguf).name, of_gguf(options.gguf))
        for name, (kind, theirs) in kinds.items():
            composed = text
            if kind == "qwen2":  # it composes characters, so that other texts do not come back
                import unicodedata
                composed = unicodedata.normalize("NFC", text)
            expected = theirs.encode(composed).ids
            ours = ids_of(folder, name, composed.encode())
            off = next((i for i, (a, b) in enumerate(zip(ours, expected)) if a != b), None)
            if off is None and len(ours) != len(expected):
                off = min(len(ours), len(expected))
            wrong += off is not None
            print(f"{kind}: {len(composed.encode())} bytes, {len(expected)} tokens, "
                  + ("the same" if off is None else f"first other one at {off}: {ours[off:off + 5]}, theirs "
                     f"{expected[off:off + 5]} ({theirs.decode(expected[off:off + 5])!r})"), flush=True)
        draw = random.Random(3)
        broken = bytes(draw.randrange(256) for _ in range(100000))
        for name, (kind, _) in kinds.items():
            if kind != "qwen2" and not name.endswith(".gguf"):  # a trained vocabulary may lack bytes
                ids_of(folder, name, broken)
                print(f"{kind}: {len(broken)} random bytes come back")
    sys.exit(1 if wrong else 0)


main()
