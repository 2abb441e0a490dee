"""Formulas as notebooks write them, in a part of TeX, in the notation of formula.py: what stands between dollars.

    to_unicode(r"M_{ij} = \\gamma^{\\,i-j}")  is  "M_ij = γ^{ i-j}"
"""

import re

import formula

SIGNS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "zeta": "ζ", "pi": "π", "sum": "Σ", "top": "T", "odot": "⊙", "cdot": "·",
    "le": "≤", "ge": "≥", "leftarrow": "←", "lceil": "⌈", "rceil": "⌉", "|": "‖",
    "log": "log", "ln": "ln", "lg": "lg", ",": " ", ";": " ", "qquad": "\u2003",
}
WORDS = re.compile(r"\\(?:mathrm|mathrel|text)\{([^{}]*)\}")
ACCENTS = {r"\tilde": "\u0303"}
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", re.DOTALL)


def _sign(match):
    name = match[1]
    if name not in SIGNS:
        raise ValueError(f"\\{name}, which docs/manual/tex.py does not know")
    return SIGNS[name]


def to_unicode(text):
    """One formula; fails at a command that is not known here, so that none is shown wrong."""
    for command, accent in ACCENTS.items():
        text = re.sub(re.escape(command) + r"\s*(\w)", rf"\1{accent}", text)
    text = WORDS.sub(r"\1", text)
    text = re.sub(r"([_^])\{(\w{2,3})\}(?!\w)", r"\1\2", text)  # letters, no word
    text = re.sub(r"\\([A-Za-z]+|.)", _sign, text.strip())
    return re.sub(" *\u2003 *", "   ", re.sub(r"[ \n]+", " ", text))  # a wide space parts what is said beside a formula


def set_aside(text):
    """Markdown with a sign of its own in the place of each formula, which Markdown would read as emphasis and escapes; and
    what each stands for."""
    found = []

    def one(match):
        block = match[1] is not None
        found.append((formula.to_mathml(to_unicode(match[1] if block else match[2]), block), block))
        return chr(0xE000 + len(found) - 1)

    return FORMULA.sub(one, text), found


def put_back(body, found):
    """HTML with the formulas where their signs stand; one by itself is no part of a paragraph."""
    for i, (mathml, block) in enumerate(found):
        sign = chr(0xE000 + i)
        if block:
            body = body.replace(f"<p>{sign}</p>", f'<div class="formula">{mathml}</div>')
        body = body.replace(sign, mathml)
    return body
