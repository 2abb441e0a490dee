#!/usr/bin/env python3
"""Small tokenizers, and the ids that Hugging Face's library gives some texts with them: makes the .json files here.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers==0.23.3
    /tmp/venv/bin/python tests/data/tokenizer/make.py

One tokenizer for each way to cut a text into words: those of GPT-2, SmolLM, Llama 3 (a word that is a token stays one,
a text begins with a token) and Qwen 2 (text is composed, NFC). Each knows all bytes and is trained on the texts below.
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

TEXTS = [
    "",
    " ",
    "a",
    "The quick brown fox doesn't jump; it's 12345 years old, they'll SAY'VE seen IT'S I'D.",
    "the theatre then there other  two  blanks   three    four\n\n\nlines \n \t\ttabs\r\nend  ",
    "for (int i = 0; i < 100; ++i) {\n    out[i] += x[i] * 0.5f;  // half\n}\n",
    "def f(x):\n\treturn {'a': x ** 2, \"b\": [1, 22, 333, 4444]}\n",
    "3.14159 1,000,000 ½ ² ③ Ⅻ ٣٤٥ १२३ 2026-11-23T14:22:21Z",
    "日本語のテキストと中文文本和한국어 텍스트가 섞여 있다。",
    "Привет, мир! Ελληνικά. שלום עולם مرحبا بالعالم สวัสดีชาวโลก नमस्ते दुनिया",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 ❤️ 😀😀 👍🏽",
    "cafe\u0301 caf\u00e9 A\u030a\u0300 \u1e9b\u0323 e\u0301e\u0302e\u0323\u0302 \u1100\u1161\u11a8 \uf900 \u2126",
    "thin\u2009space nbsp\u00a0here \u3000ideographic \u2028line \u0085next \u180evowel \u200bzero \ufeffmark \x1c \x0b\x0c",
    "control \x00\x01\x02\x07\x7f and \ufffd\ufffd",
    "<|begin|><|user|>Hi<|end|>\n<|begin|> <|end <|end|> |end|> foo bar foo  bar",
    "'s's'S'\u017f 'tis 'llama'Re 've",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "                                                                                x\n\n\n\n\n\n\n\n\n\n        y",
    "MiXeD123Case_snake-kebab.dot/slash\\back@at#hash$dollar%percent^caret&and*star(paren)[b]{c}<d>|e|~`",
    "\U00020000\U0002a6d6\U000e0041\U0010fffd\U0001f9ff\u0378",
]


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split(expression):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"), byte_level(False)])


def train(name, pre, normalizer=None, ignore_merges=False, begin=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre, decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        TEXTS * 3, trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False))
    marks = [AddedToken(mark, special=True, normalized=False) for mark in ("<|begin|>", "<|end|>", "<|end", "<|user|>")]
    tokenizer.add_special_tokens(marks)
    tokenizer.add_tokens(["foo bar"])
    if begin:
        tokenizer.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing("<|begin|> $A", None, [("<|begin|>", tokenizer.token_to_id("<|begin|>"))])])
    tokenizer.save(str(HERE / f"{name}.json"), pretty=False)
    return [{"text": text, "ids": tokenizer.encode(text).ids[1 if begin else 0:]} for text in TEXTS]


golden = {
    "gpt2": train("gpt2", byte_level(True)),
    "smollm": train("smollm", pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)])),
    "llama3": train("llama3", split(LLAMA3), ignore_merges=True, begin=True),
    "qwen2": train("qwen2", split(QWEN2), normalizers.NFC()),
}
(HERE / "golden.json").write_text(json.dumps(golden) + "\n")
