"""The reference of the Python module, read from its sources: signatures and docstrings of what it exports."""

import ast
import html
import re
from pathlib import Path

import formula
from frame import Page


def _exported(tree):
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return ast.literal_eval(node.value)
    raise ValueError("the module has no __all__")


def _text(docstring):
    out = []
    for block in re.split(r"\n\s*\n", docstring or ""):
        if re.match(r"\s{4}|\s*>>>", block):
            out.append(f"<pre><code>{html.escape(block.strip(chr(10)), quote=False)}</code></pre>")
        else:
            words = re.sub(r"\s+", " ", block).strip()
            out.append(f"<p>{formula.inline(words)}</p>")
    return "\n".join(out)


def python_page(root):
    folder = Path(root) / "core/c/python/causeway"
    module = ast.parse((folder / "__init__.py").read_text())
    nodes = {}
    for path in sorted(folder.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                nodes.setdefault(node.name, node)
    names = _exported(module)
    body = ['<h1 id="python">Python</h1>', _text(ast.get_docstring(module, clean=True))]
    for name in names:
        node = nodes[name]
        if isinstance(node, ast.ClassDef):
            shown = f"class {name}({', '.join(map(ast.unparse, node.bases))})"
        else:
            shown = f"{name}({ast.unparse(node.args)})"
        body += [f'<h2 id="{name.lower()}">{name}</h2>', f"<pre><code>{html.escape(shown, quote=False)}</code></pre>",
                 _text(ast.get_docstring(node, clean=True))]
    return Page("python.html", "Python", "\n".join(body), "Reference")
