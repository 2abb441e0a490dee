"""Holds the parts of the manual's generator: formulas, links, comments of headers, help. Its folder is the argument."""

import json
import os
import sys
import tempfile
import xml.dom.minidom
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import build  # noqa: E402
import formula  # noqa: E402
import headers  # noqa: E402
import help_pages  # noqa: E402
import links  # noqa: E402
import notebook_page  # noqa: E402
import pages  # noqa: E402
import tex  # noqa: E402


def text_of(element):
    return "".join(node.data if node.nodeType == node.TEXT_NODE else text_of(node) for node in element.childNodes)


def read(mathml):
    return xml.dom.minidom.parseString(mathml.encode()).documentElement


# Formulas: scripts, groups, roots and words are what they are; no text is refused, and none is lost.
assert "<msub><mi>M</mi><mrow><mi>i</mi><mi>j</mi></mrow></msub>" in formula.to_mathml("M_ij")
assert "<msup><mi>γ</mi><mrow><mi>i</mi><mo>−</mo><mi>j</mi></mrow></msup>" in formula.to_mathml("γ^(i-j)")
assert "<msup><mi>C</mi><mi>T</mi></msup>" in formula.to_mathml("B Cᵀ")
assert "<msubsup>" in formula.to_mathml("‖X‖_F²")
assert formula.to_mathml("√(2/r)") == formula.to_mathml("sqrt(2/r)")
assert "<msqrt><mi>d</mi></msqrt>" in formula.to_mathml("1/√d")
assert text_of(read(formula.to_mathml("S ← diag(e^g) S + k vᵀ for g ≤ 0"))) == "S←diag(eg)S+kvTforg≤0"
for odd in ("", "(", "a_", "^", "((a]", "x_{y", "√", "<&>", "a_b_c^d", "²"):
    read(formula.to_mathml(odd))
assert formula.inline("see log_decay, x_i and a.b_c") == (
    "see log_decay, " + formula.to_mathml("x_i") + " and a.b_c"), formula.inline("see log_decay, x_i and a.b_c")
assert formula.inline("a < b & c") == "a &lt; b &amp; c"
assert formula.is_formula("O = (B Cᵀ ⊙ M) V") and not formula.is_formula("./lab test   # ≤ an hour")
assert not formula.is_formula("o = linear_attention(q, k, v)")
# What wide blanks part may stand below each other, what brackets hold may not.
assert formula.block_html("a = b,    c(x,  y)\nd") == '<div class="formula"><div class="parts">' + "".join(
    formula.to_mathml(part, block=True) for part in ("a = b,", "c(x,  y)")) + "</div>" + formula.to_mathml("d", block=True) + "</div>"

# Every block of the proofs that is a formula is well formed.
root = Path(sys.argv[1]).parents[1]
count = 0
for path in sorted((root / "proofs").glob("*.md")):
    for token in pages.MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8")):
        if token.type == "code_block" and formula.is_formula(token.content):
            read(formula.block_html(token.content))
            count += 1
assert count > 20, count

# A notebook's formulas are TeX, of which nothing unknown is let through.
assert formula.to_mathml(tex.to_unicode(r"S_i = \gamma S_{i-1} + c_i v_i^\top")) == (
    formula.to_mathml("S_i = γ S_{i-1} + c_i v_i^T")), tex.to_unicode(r"S_i = \gamma S_{i-1} + c_i v_i^\top")
assert tex.to_unicode(r"\|E \odot M\|_F \le 1 + \ln(N)/\pi") == "‖E ⊙ M‖_F ≤ 1 + ln(N)/π", (
    tex.to_unicode(r"\|E \odot M\|_F \le 1 + \ln(N)/\pi"))
assert tex.to_unicode(r"M_{ij} = \gamma^{\,i-j}") == "M_ij = γ^{ i-j}", tex.to_unicode(r"M_{ij} = \gamma^{\,i-j}")
try:
    tex.to_unicode(r"\frac{1}{2}")
except ValueError as error:
    assert "\\frac" in str(error)
else:
    raise AssertionError("an unknown command of TeX was not refused")
cells = [
    {"cell_type": "markdown", "source": ["# A title\n", "\n", "with $a_i$ and $b_i$\n", "\n", "$$x \\le y$$"]},
    {"cell_type": "code", "source": "1 < 2", "outputs": [
        {"output_type": "stream", "text": ["a < b\n"]},
        {"output_type": "display_data", "data": {"text/plain": "no", "text/html": ["<b>yes</b>"]}},
        {"output_type": "display_data", "data": {"image/svg+xml": "<svg><title>curve</title></svg>", "text/plain": "no"}}]},
]
notebook = notebook_page.NotebookRenderer(pages.Sources(root, {}, {}), "docs/notebooks/n.ipynb", "docs/notebooks/n.html")
page = notebook.page(json.dumps({"cells": cells}))
assert page.title == "A title" and page.body.count("<math") == 3 and page.body.count('<math display="block"') == 1
assert '<div class="formula"><math' in page.body and "1 &lt; 2" in page.body and "<pre>a &lt; b\n</pre>" in page.body
assert "<b>yes</b>" in page.body and '<img src="n-1.svg" alt="curve">' in page.body and "no<" not in page.body
assert list(notebook.pictures) == ["docs/notebooks/n-1.svg"]

# Comments of the sources are Doxygen's in its copy, and code is as it was.
made = headers.documented("// A file.\n#pragma once\n\n// Says\n//     x < y\nint f(int a);  // more\n                // of it\nint b;\n")
assert "/// @file\n/// A file.\n" in made and "/// @verbatim\n///     x < y\n/// @endverbatim\nint f(int a); ///< more" in made
assert "///< of it" in made and made.endswith("int b;\n")
assert "/**<  the element */" in headers.documented_c("int a; /* the element */") or "/**< the element */" in (
    headers.documented_c("int a; /* the element */"))

# Help: paragraphs, rows of names, and what is laid out.
shown = help_pages.laid_out("One\ntwo.\n\n  name  what it is\n  other  more\n     of it\n\nThree.")
assert shown == ('<p>One two.</p>\n<dl class="rows"><dt>name</dt><dd>what it is</dd><dt>other</dt><dd>more of it</dd></dl>\n'
                 "<p>Three.</p>"), shown

# Where git is not installed the pages are those that lie there, but for what was built.
with tempfile.TemporaryDirectory() as folder:
    for name in ("build/b.md", "docs/a.md"):
        (Path(folder) / name).parent.mkdir()
        (Path(folder) / name).write_text("# A page\n")
    path, os.environ["PATH"] = os.environ["PATH"], folder
    assert build.tracked(folder) == ["docs/a.md"], build.tracked(folder)
    os.environ["PATH"] = path

# Links that lead nowhere are found, to pages and to anchors.
with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "a.html").write_text('<a href="b.html#there"></a><a href="c.html"></a><a href="#no"></a>')
    (Path(folder) / "b.html").write_text('<h1 id="here"></h1><a href="a.html"></a><a href="https://example.org/x"></a>')
    broken = links.broken(folder)
    assert len(broken) == 3 and "c.html is not there" in " ".join(broken), broken
try:
    sources = pages.Sources(root, {"README.md": "README.html"}, {})
    pages.Renderer(sources, "README.md", "README.html").page("[gone](nowhere.md)")
except ValueError as error:
    assert "nowhere.md" in str(error)
else:
    raise AssertionError("a link of a page that leads nowhere was not refused")
print("the parts of the manual hold")
