"""Formulas as the pages write them, in Unicode and on one line, as MathML.

    to_mathml("O = (B Cᵀ ⊙ M) V,  M_ij = γ^(i-j)")

Letters are italic, words of several letters upright; `_` and `^` take the letters and digits behind them, or what stands
in braces or brackets, which then vanish; raised and lowered digits and letters of Unicode are scripts of what stands
before them; √ and sqrt() are roots. Two blanks and more part what is said beside a formula from it. No text is refused:
what is no formula comes out as words.
"""

import html
import re

RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀⁿⁱᵏᵖ", "0123456789+−Tnikp"))
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ₜₙᵢⱼₖₚᵣ", "0123456789+−tnijkpr"))
CLOSING = {"(": ")", "[": "]", "{": "}", "⌈": "⌉", "⌊": "⌋"}
OPERATORS = {"<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "<-": "←", "-": "−", "*": "∗"}
TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d+(?:\.\d+)?(?:e[-+]?\d+)?)|(?P<word>[^\W\d_](?:[^\W\d_]|[̀-ͯ])*)"
    r"|(?P<operator><=|>=|!=|->|<-|.)",
    re.DOTALL,
)


def _tokens(text):
    found = []
    for match in TOKEN.finditer(text):
        kind, value = match.lastgroup, match.group()
        if kind == "word":
            for tag, part in _split_scripts(value):
                pair = tag == "word" and re.fullmatch("[A-Z]{2}", part)  # a product of two matrices
                found += [(tag, letter) for letter in part] if pair else [(tag, part)]
        elif kind == "operator" and value in RAISED:
            found.append(("raised", RAISED[value]))
        elif kind == "operator" and value in LOWERED:
            found.append(("lowered", LOWERED[value]))
        else:
            found.append((kind, OPERATORS.get(value, value)))
    return found


def _split_scripts(word):
    """A word up to its first raised or lowered letter, and those: ᵀ is a letter to Unicode."""
    found, plain = [], ""
    for letter in word:
        if letter in RAISED or letter in LOWERED:
            if plain:
                found.append(("word", plain))
                plain = ""
            found.append(("raised", RAISED[letter]) if letter in RAISED else ("lowered", LOWERED[letter]))
        else:
            plain += letter
    return found + ([("word", plain)] if plain else [])


def _tag(name, *content):
    return f"<{name}>{''.join(content)}</{name}>"


def _row(items):
    return items[0] if len(items) == 1 else _tag("mrow", *items)


def _word(value):
    """A letter, or several: those are upright, as MathML has it for an <mi> of more than one."""
    return _tag("mi", html.escape(value))


def _operator(value):
    if value in "()[]{}|‖⌈⌉⌊⌋":
        return f'<mo stretchy="false">{value}</mo>'
    if value == "/":
        return '<mo lspace="0" rspace="0">/</mo>'
    return _tag("mo", html.escape(value))


class _Reader:
    def __init__(self, text):
        self.tokens = _tokens(text)
        self.at = 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else (None, None)

    def take(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def sequence(self, closing=None):
        """What stands before the closing bracket, which is taken too, or up to the end."""
        items, before = [], None
        while self.peek()[0]:
            kind, value = self.peek()
            if kind == "operator" and value == closing:
                self.take()
                return items
            if kind == "space":
                self.take()
                after = self.peek()
                if items and after[0] and not (after == ("operator", closing)):
                    items.append(_space(value, before, after))
                continue
            items.append(self.scripted())
            last = self.tokens[self.at - 1]
            before = last if last[0] == "operator" else (kind, value)
        return items

    def scripted(self):
        """An atom with all that is raised and lowered beside it."""
        base, lower, upper = self.atom(), [], []
        while True:
            kind, value = self.peek()
            if kind in ("raised", "lowered"):
                self.take()
                part = _tag("mo" if value in "+−" else "mn" if value.isdigit() else "mi", value)
                (upper if kind == "raised" else lower).append(part)
            elif kind == "operator" and value in "_^" and self.at + 1 < len(self.tokens):
                self.take()
                (upper if value == "^" else lower).extend(self.script())
            else:
                break
        if lower and upper:
            return _tag("msubsup", base, _row(lower), _row(upper))
        if lower:
            return _tag("msub", base, _row(lower))
        return _tag("msup", base, _row(upper)) if upper else base

    def script(self):
        """What stands behind _ or ^: a group without its brackets, or letters, digits and a sign before them."""
        kind, value = self.peek()
        if kind == "operator" and value in "{(":
            self.take()
            return self.sequence(CLOSING[value]) or [_tag("mrow")]
        if kind == "operator" and value == "[":
            return [self.atom()]
        items = []
        if kind == "operator" and value in "−+":
            items.append(_operator(self.take()[1]))
        while self.peek()[0] in ("word", "number"):
            kind, value = self.take()
            if kind == "number":
                items.append(_tag("mn", value))
            elif value in ("min", "max", "last", "old", "prev", "new"):
                items.append(_word(value))
            else:
                items += [_word(letter) for letter in value] if len(value) < 4 else [_word(value)]
        return items or [_tag("mrow")]

    def atom(self):
        kind, value = self.take()
        if kind == "number":
            return _tag("mn", value)
        if kind == "word":
            if value == "sqrt" and self.peek() == ("operator", "("):
                self.take()
                return _tag("msqrt", *self.sequence(")"))
            return _word(value)
        if kind in ("raised", "lowered"):
            return _tag("mn" if value.isdigit() else "mi", value)
        if value == "√":
            if self.peek() == ("operator", "("):
                self.take()
                return _tag("msqrt", *self.sequence(")"))
            return _tag("msqrt", self.scripted()) if self.peek()[0] in ("word", "number") else _operator(value)
        if value in CLOSING:
            start = self.at
            items = self.sequence(CLOSING[value])
            if self.tokens[self.at - 1] == ("operator", CLOSING[value]) and self.at > start:
                return _tag("mrow", _operator(value), *items, _operator(CLOSING[value]))
            return _tag("mrow", _operator(value), *items)  # never closed
        return _operator(value)


def _is_word(token):
    return token is not None and token[0] == "word" and len(token[1]) > 1


def _is_infix(token):
    return token is not None and token[0] == "operator" and token[1] not in "()[]{}‖|√ΣΠ"


def _space(blanks, before, after):
    """Operators have spaces of their own; words need one, factors a narrow one, and wide ones stay."""
    if len(blanks) > 1:
        width = 2.0
    elif _is_word(before) or _is_word(after):
        width = 0.3
    elif _is_infix(before) or _is_infix(after):
        width = 0.3 if before[1] in ",;:" else 0
    else:
        width = 0.17
    return f'<mspace width="{width}em"/>' if width else ""


def to_mathml(text, block=False):
    """The formula as an element <math>, in a line of text or by itself."""
    display = ' display="block"' if block else ""
    return f"<math{display}>{_tag('mrow', *_Reader(text.strip()).sequence())}</math>"


# Inside of prose: a letter or a norm with a script of a few letters and digits or of a group, and nothing that is the
# name of a function or a file.
_SCRIPT = r"(?:[_^](?:\{[^{}]*\}|\([^()]*\)|\[[^\[\]]*\]|-?[A-Za-z0-9α-ω]{1,4}(?![A-Za-z0-9_])))"
_SIGNS = "[" + "".join(RAISED) + "".join(LOWERED) + "]"
INLINE = re.compile(rf"(?<![\w./])(?:‖[^‖\n]{{1,60}}‖|(?:[A-Z]{{2}}|[A-Za-zα-ωΑ-ΩÃ-ỹ])['′]?)(?:{_SCRIPT}|{_SIGNS})+(?![\w])")


def inline(text):
    """Escaped prose with the formulas in it as MathML."""
    out, at = [], 0
    for match in INLINE.finditer(text):
        out += [html.escape(text[at : match.start()], quote=False), to_mathml(match.group())]
        at = match.end()
    return "".join(out) + html.escape(text[at:], quote=False)


def prose(text):
    """The same, with what stands between backticks as code."""
    parts = re.split(r"`([^`]+)`", text)
    return "".join(f"<code>{html.escape(part, quote=False)}</code>" if i % 2 else inline(part)
                   for i, part in enumerate(parts))


_SIGN = re.compile("[≤≥≈←⊙ΣΠ√‖∎·⊗⊕∇∂∞⌈⌊α-ωΔΛΩ" + "".join(RAISED) + "".join(LOWERED) + "]|̃")
_COMMAND = re.compile(r"^(?:\./|\$|build/|cmake|python3|causeway|git|#)|\.lua\b|[A-Za-z]{2,}_\w+\(|[A-Za-z]{3,}_[A-Za-z]{2,}")


def is_formula(block):
    """Whether an indented block is formulas, not commands or code: a sign of mathematics in some line, a command in none."""
    lines = [line.strip() for line in block.splitlines() if line.strip()]
    return any(_SIGN.search(line) or " = " in line for line in lines) and not any(map(_COMMAND.search, lines))


def _parts(line):
    """The formulas that wide blanks part from each other, outside of brackets."""
    found, depth = [""], 0
    for piece in re.split(r"(\s{2,}|[()\[\]{}])", line.strip()):
        depth += (piece in "([{") - (piece in ")]}") if piece else 0
        if depth == 0 and re.fullmatch(r"\s{2,}", piece):
            found.append("")
        else:
            found[-1] += piece
    return found


def block_html(block):
    """Lines of formulas, each by itself; where there is no room for one, its parts stand below each other."""
    out = []
    for line in filter(str.strip, block.splitlines()):
        parts = "".join(to_mathml(part, block=True) for part in _parts(line))
        out.append(f'<div class="parts">{parts}</div>' if parts.count("<math") > 1 else parts)
    return '<div class="formula">' + "".join(out) + "</div>"
