"""The frame that all pages of the manual share, and the index that its search reads."""

import html
import json
import os
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path


@dataclass
class Page:
    url: str  # "docs/tutorial.html", below the root of the site
    title: str
    body: str
    group: str = ""  # of the menu; "" leaves the page out of it
    short: str = ""  # what the menu calls it; the title unless given
    searched: bool = True


def slug(text, taken):
    """The anchor of a heading as GitHub makes it, so that links in the sources lead here too."""
    base = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    name, n = base, 0
    while name in taken:
        n += 1
        name = f"{base}-{n}"
    taken.add(name)
    return name


def relative(from_url, to_url):
    """The link from one page of the site to another, or to an anchor of it."""
    path, _, anchor = to_url.partition("#")
    link = os.path.relpath(path, os.path.dirname(from_url) or ".") if path != from_url or not anchor else ""
    return link + (f"#{anchor}" if anchor else "")


FRAME = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · causeway</title>
<link rel="stylesheet" href="{root}style.css">
<script defer src="{root}search.js"></script>
</head>
<body data-root="{root}">
<header>
<a class="name" href="{root}index.html">causeway</a>
<a class="to-menu" href="#menu">Menu</a>
<form role="search" action="{root}index.html"><input type="search" name="q" placeholder="Search the manual"
 aria-label="Search the manual" autocomplete="off"></form>
</header>
<div id="found" role="status" hidden></div>
<main>
{body}
</main>
<nav id="menu" aria-label="Pages">
{menu}
</nav>
<footer>causeway {version}. The manual of this version, made from its sources; it needs no network.</footer>
</body>
</html>
"""


class _Text(HTMLParser):
    """The words of a page, apart for each heading with an anchor."""

    def __init__(self):
        super().__init__()
        self.sections = [["", "", []]]  # anchor, heading, words
        self.heading = self.mark = False  # within a heading, and within the sign that links to it

    def handle_starttag(self, tag, attributes):
        anchor = dict(attributes).get("id")
        self.mark = self.mark or dict(attributes).get("class") == "anchor"
        if tag in ("h1", "h2", "h3") and anchor:
            self.sections.append([anchor, "", []])
            self.heading = True
        elif tag in ("p", "li", "td", "th", "dt", "dd", "h4", "caption", "pre", "div", "mtd", "br"):
            self.sections[-1][2].append(" ")

    def handle_endtag(self, tag):
        if tag in ("h1", "h2", "h3"):
            self.heading = False
        self.mark = self.mark and tag != "a"

    def handle_data(self, data):
        if self.mark:
            return
        if self.heading:
            self.sections[-1][1] += data
        else:
            self.sections[-1][2].append(data)


def _records(page):
    """What search knows of a page: where, its title, the heading, the words below it."""
    reader = _Text()
    reader.feed(page.body)
    for anchor, heading, words in reader.sections:
        text = re.sub(r"\s+", " ", "".join(words)).strip()
        if text or heading:
            url = page.url + (f"#{anchor}" if anchor else "")
            yield [url, page.title, "" if heading.strip() == page.title else heading.strip(), text]


def _menu(groups, page):
    out = []
    for name, pages in groups.items():
        items = []
        for other in pages:
            here = ' aria-current="page"' if other.url == page.url else ""
            label = html.escape(other.short or other.title)
            items.append(f'<li><a href="{relative(page.url, other.url)}"{here}>{label}</a></li>')
        shown = " open" if any(other.url == page.url for other in pages) or name == "Start" else ""
        out.append(f"<details{shown}><summary>{html.escape(name)}</summary><ul>{''.join(items)}</ul></details>")
    return "\n".join(out)


def write(pages, folder, version):
    """Writes all pages, the style and the index; a page that stands twice is an error of the caller."""
    groups = {}
    for page in pages:
        if page.group:
            groups.setdefault(page.group, []).append(page)
    urls = [page.url for page in pages]
    assert len(set(urls)) == len(urls), sorted(url for url in urls if urls.count(url) > 1)
    for page in pages:
        root = "../" * page.url.count("/")
        text = FRAME.format(title=html.escape(page.title), root=root, body=page.body, menu=_menu(groups, page),
                            version=html.escape(version))
        path = folder / page.url
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    here = Path(__file__).resolve().parent
    for name in ("style.css", "search.js"):
        (folder / name).write_bytes((here / name).read_bytes())
    records = [record for page in pages if page.searched for record in _records(page)]
    # A script and no data file: browsers let a page on the disk load the one and not the other.
    index = json.dumps(records, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    (folder / "search-index.js").write_text(f"window.searchIndex={index};\n", encoding="utf-8")
    return len(records)
