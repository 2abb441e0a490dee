"""Pages out of the Markdown of the repository. A link to another file of it leads to that file's page; a file that is no
page, a script or a test, is shown as it is on a page of its own."""

import html
import posixpath
import re
from pathlib import Path

from markdown_it import MarkdownIt

import formula
from frame import Page, relative, slug

PICTURES = {".svg", ".png", ".jpg"}


class Sources:
    """The repository as the site sees it: which files are pages, and which are linked to and must be shown."""

    def __init__(self, root, pages, help_links):
        self.root = Path(root)
        self.pages = pages  # path -> url
        self.help_links = help_links  # what a code span may say -> url
        self.linked = {}  # path -> url of files that are no pages
        self.pictures = set()

    def url_of(self, path):
        """The page of a file or folder of the repository; fails where there is none."""
        if path in self.pages:
            return self.pages[path]
        for index in ("README.md", "index.md"):
            if posixpath.join(path, index) in self.pages:
                return self.pages[posixpath.join(path, index)]
        if not (self.root / path).exists():
            return None
        self.linked[path] = f"files/{path.rstrip('/')}.html"
        return self.linked[path]


class Renderer:
    def __init__(self, sources, path, url):
        self.sources, self.path, self.url = sources, path, url
        self.broken = []
        self.taken = set()
        self.in_link = 0
        self.title = ""
        self.parser = MarkdownIt("commonmark").enable("table")

    def page(self, text, group="", short=""):
        body = self.blocks(self.parser.parse(text))
        if self.broken:
            raise ValueError(f"{self.path}: links to {', '.join(self.broken)}, which is not there")
        return Page(self.url, self.title or self.path, body, group, short)

    def link(self, target):
        if re.match(r"[a-z]+:", target):
            return target
        path, _, anchor = target.partition("#")
        if not path:
            return target
        place = posixpath.normpath(posixpath.join(posixpath.dirname(self.path), path))
        if Path(path).suffix in PICTURES and (self.sources.root / place).exists():
            self.sources.pictures.add(place)
            return relative(self.url, "files/" + place)
        url = self.sources.url_of(place)
        if url is None:
            self.broken.append(target)
            return target
        return relative(self.url, url + (f"#{anchor}" if anchor else ""))

    def blocks(self, tokens):
        out = []
        for i, token in enumerate(tokens):
            kind = token.type
            if kind == "heading_open":
                text = "".join(child.content for child in tokens[i + 1].children)
                name = slug(text, self.taken)
                self.title = self.title or text
                out.append(f'<{token.tag} id="{name}">')
            elif kind == "heading_close":
                name = re.search(r'id="([^"]*)">[^<]*', [x for x in out if x.startswith(f"<{token.tag} id=")][-1])[1]
                anchor = "" if token.tag == "h1" else f'<a class="anchor" href="#{name}" aria-label="Link">#</a>'
                out.append(f"{anchor}</{token.tag}>\n")
            elif kind == "inline":
                out.append(self.inline(token.children))
            elif kind == "fence":
                language = token.info.split()[0] if token.info else ""
                marked = f' class="language-{html.escape(language)}"' if language else ""
                out.append(f"<pre><code{marked}>{html.escape(token.content, quote=False)}</code></pre>\n")
            elif kind == "code_block":
                out.append(self.indented(token.content))
            elif kind == "html_block":
                out.append(token.content)
            elif kind == "table_open":
                out.append('<div class="table"><table>')
            elif kind == "table_close":
                out.append("</table></div>\n")
            elif kind == "paragraph_open" and token.hidden or kind == "paragraph_close" and token.hidden:
                continue
            elif token.nesting == 1:
                style = token.attrGet("style")
                start = token.attrGet("start")
                out.append(f"<{token.tag}" + (f' style="{style}"' if style else "")
                           + (f' start="{start}"' if start else "") + ">")
            elif token.nesting == -1:
                out.append(f"</{token.tag}>\n")
            elif kind == "hr":
                out.append("<hr>\n")
            else:
                raise ValueError(f"{self.path}: {kind}, which the manual does not know")
        return "".join(out)

    def indented(self, text):
        if formula.is_formula(text):
            return formula.block_html(text)
        return f"<pre><code>{html.escape(text, quote=False)}</code></pre>\n"

    def inline(self, tokens):
        out = []
        for token in tokens:
            kind = token.type
            if kind == "text":
                out.append(formula.inline(token.content))
            elif kind == "code_inline":
                out.append(self.code(token.content))
            elif kind == "link_open":
                self.in_link += 1
                out.append(f'<a href="{html.escape(self.link(token.attrGet("href")))}">')
            elif kind == "link_close":
                self.in_link -= 1
                out.append("</a>")
            elif kind == "image":
                source = html.escape(self.link(token.attrGet("src")))
                out.append(f'<img src="{source}" alt="{html.escape(token.content)}">')
            elif kind in ("softbreak", "hardbreak"):
                out.append("<br>\n" if kind == "hardbreak" else "\n")
            elif kind == "html_inline":
                out.append(token.content)
            else:
                out.append(f"<{'/' if token.nesting < 0 else ''}{token.tag}>")
        return "".join(out)

    def code(self, text):
        """A span of code, which leads to the help on it where it is `?name` or the name of a function."""
        shown = f"<code>{html.escape(text, quote=False)}</code>"
        url = self.sources.help_links.get(text)
        return f'<a href="{relative(self.url, url)}">{shown}</a>' if url and not self.in_link else shown


def file_page(sources, path, url):
    """A file of the repository as it is, or what a folder of it holds."""
    place = sources.root / path
    if place.is_dir():
        names = sorted(p.name + ("/" if p.is_dir() else "") for p in place.iterdir() if not p.name.startswith("."))
        body = "<ul>" + "".join(f"<li><code>{html.escape(name)}</code></li>" for name in names) + "</ul>"
    else:
        text = place.read_text(encoding="utf-8", errors="replace")
        if len(text) > 200_000:
            body = f"<p>{len(text)} characters, in the sources as <code>{html.escape(path)}</code>.</p>"
        else:
            body = f"<pre><code>{html.escape(text, quote=False)}</code></pre>"
    return Page(url, path, f"<h1>{html.escape(path)}</h1>\n{body}", searched=False)
