"""A notebook as a page: its prose, its cells, and what they showed when it was run, which the notebook holds."""

import html
import json
import posixpath
import re

import tex
from frame import Page, relative
from pages import Renderer

# What a cell showed has several forms, of which a page takes the first of these.
FORMS = ("image/svg+xml", "text/html", "text/plain")


def _joined(text):
    return text if isinstance(text, str) else "".join(text)


class NotebookRenderer(Renderer):
    def __init__(self, sources, path, url):
        super().__init__(sources, path, url)
        self.pictures = {}  # url -> SVG, files of their own: two in one page would share their names

    def page(self, text, group="", short=""):
        body = "".join(self.cell(cell) for cell in json.loads(text)["cells"])
        if self.broken:
            raise ValueError(f"{self.path}: links to {', '.join(self.broken)}, which is not there")
        note = f'<p class="what"><code>./lab notebook</code> opens a copy of it to run and change; in the sources it is <code>{self.path}</code>.</p>'
        return Page(self.url, self.title, re.sub("</h1>", "</h1>\n" + note, body, count=1), group, short)

    def cell(self, cell):
        source = _joined(cell["source"])
        if cell["cell_type"] == "markdown":
            source, formulas = tex.set_aside(source)
            return tex.put_back(self.blocks(self.parser.parse(source)), formulas)
        code = f'<pre><code class="language-lua">{html.escape(source, quote=False)}</code></pre>\n'
        return code + "".join(self.output(output) for output in cell["outputs"])

    def output(self, output):
        kind = output["output_type"]
        if kind == "stream":
            shown = self.plain(_joined(output["text"]))
        elif kind == "error":
            shown = self.plain(output["evalue"])
        else:
            form = next(form for form in FORMS if form in output["data"])
            text = _joined(output["data"][form])
            shown = {"image/svg+xml": self.picture, "text/html": str, "text/plain": self.plain}[form](text)
        return f'<div class="output">{shown}</div>\n'

    def plain(self, text):
        return f"<pre>{html.escape(text, quote=False)}</pre>"

    def picture(self, svg):
        name = posixpath.basename(self.url).removesuffix(".html")
        url = f"{posixpath.dirname(self.url)}/{name}-{len(self.pictures) + 1}.svg"
        self.pictures[url] = svg
        title = re.search(r"<title>(.*?)</title>", svg)
        return f'<img src="{relative(self.url, url)}" alt="{title[1] if title else ""}">'
