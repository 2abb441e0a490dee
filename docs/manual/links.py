"""The links within a folder of pages: each must lead to a file there, and to an anchor of it."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote


class _Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.anchors = [], set()

    def handle_starttag(self, _, attributes):
        attributes = dict(attributes)
        for name in ("href", "src", "action"):
            if attributes.get(name):
                self.links.append(attributes[name])
        if attributes.get("id"):
            self.anchors.add(attributes["id"])


def _read(path):
    reader = _Links()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


def broken(folder):
    """The links that lead nowhere, a sentence each. Those out of the folder, to other hosts, are not looked at."""
    folder = Path(folder).resolve()
    pages = {path: _read(path) for path in folder.rglob("*.html")}
    found = []
    for path, page in sorted(pages.items()):
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            place = (path.parent / unquote(target)).resolve() if target else path
            if not place.exists() or folder not in place.parents:
                found.append(f"{path.relative_to(folder)}: {link} is not there")
            elif anchor and place in pages and unquote(anchor) not in pages[place].anchors:
                found.append(f"{path.relative_to(folder)}: {link}, whose anchor is not there")
    return found
