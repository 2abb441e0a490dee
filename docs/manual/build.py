#!/usr/bin/env python3
"""The manual as one folder of pages that needs no network: build.py SOURCES PROGRAM FOLDER

SOURCES is the repository, PROGRAM the shell, which is asked for its help; FOLDER is made anew. Needs markdown-it-py and
doxygen (Debian's python3-markdown-it and doxygen). Fails where a link leads nowhere.
"""

import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import frame
import headers
import help_pages
import links
import pages
from frame import Page
from notebook_page import NotebookRenderer
from python_page import python_page

# What the menu has, in this order: (group, path, short name); a pattern has what it finds that is not named before.
MENU = [
    ("Start", "docs/tutorial.md", ""),
    ("Start", "docs/tour.md", ""),
    ("Start", "docs/shell.md", ""),
    ("Start", "docs/notebook.md", ""),
    ("Start", "README.md", "Overview"),
    ("Notebooks", "docs/notebooks/ten_minutes.ipynb", ""),
    ("Notebooks", "docs/notebooks/*.ipynb", "file"),
    ("Reference", "docs/cpp.md", ""),
    ("Reference", "docs/conventions.md", ""),
    ("Kernels", "docs/kernels.md", ""),
    ("Kernels", "docs/kernels/*.md", "file"),
    ("Kernels", "gpu/**/README.md", "folder"),
    ("Proofs", "proofs/README.md", "Claims"),
    ("Proofs", "proofs/ERRATA.md", "Errata"),
    ("Proofs", "proofs/*.md", "file"),
    ("Proofs", "proofs/coq/README.md", "Checked by Coq"),
    ("Results", "docs/performance.md", ""),
    ("Results", "docs/reproduction.md", ""),
    ("Results", "docs/reliability.md", ""),
    ("Results", "docs/status.md", ""),
    ("Project", "CONTRIBUTING.md", "Contributing"),
    ("Project", "CHANGELOG.md", "Changes"),
    ("Project", "docs/*.md", ""),
    ("", "*/**/README.md", ""),
]

SOURCES = (".md", ".ipynb")


def tracked(root):
    """The files of the repository: what git has, or, where there is no git or the folder is none of its own, all."""
    if shutil.which("git"):
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True)
        if listed.returncode == 0:
            return listed.stdout.split("\n")
    names = [p.relative_to(root).as_posix() for suffix in SOURCES for p in Path(root).rglob("*" + suffix)]
    return [name for name in names if not name.startswith("build")]


def menu_of(root):
    """path -> (group, short name) of all pages that are Markdown or notebooks."""
    files, found = sorted(name for name in tracked(root) if name.endswith(SOURCES) and (root / name).exists()), {}
    for group, pattern, short in MENU:
        for name in files:
            if name not in found and not name.startswith("tests/") and Path(name).match(pattern) and (
                    "**" in pattern or name.count("/") == pattern.count("/")):
                label = {"folder": name.rpartition("/")[0], "file": Path(name).stem}.get(short, short)
                found[name] = (group, label)
    return found


def help_of(program, work):
    """What the program knows of itself."""
    path = work / "help.json"
    script = Path(__file__).with_name("help.lua")
    subprocess.run([program, script, path], check=True)
    return json.loads(path.read_text(encoding="utf-8"))


def version_of(program):
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    return re.match(r"causeway (\S+)", said)[1]


START = """<h1 id="start">causeway</h1>
<p>{introduction}</p>
{formula}
{more}
<ul class="cards">
{cards}
</ul>
<p>Search with the field above, or the key <code>/</code>: names of functions and options, of papers and of other libraries,
words of any page.</p>
"""
CARDS = [
    ("docs/tutorial.html", "Ten minutes", "from your own data to a comparison, a picture, a bound and a sweep"),
    ("docs/tour.html", "Recipes", "each use with its code"),
    ("docs/shell.html", "The shell", "its habits, and the commands of ./lab"),
    ("docs/notebooks/ten_minutes.html", "Notebooks", "prose, formula, code and figure, and the claims checked beside them"),
    ("help/index.html", "Help", "every function, method, update, factorisation, option and document, A to Z"),
    ("docs/cpp.html", "From C++, C and Python", "CMake, pkg-config, wheel, PyTorch; and the reference of each"),
    ("docs/kernels.html", "GPU kernels", "predictions, versions, times, and what did not work"),
    ("proofs/README.html", "Proofs", "every claim of the documents: statement, proof, check, errata"),
    ("docs/performance.html", "Performance", "times on a CPU and on GPUs, each with the command that makes it"),
    ("docs/reproduction.html", "Reproduction", "every table and figure of the documents, with verdicts"),
]


def start_page(root, renderer_of, urls):
    """The first sentences of the README, around its formula, and what there is."""
    text = (root / "README.md").read_text(encoding="utf-8")
    blocks = text.split("\n\n")
    renderer = renderer_of("README.md", "index.html")
    introduction = renderer.blocks(renderer.parser.parse(blocks[1]))
    shown = renderer.indented(blocks[2] + "\n")
    more = renderer.blocks(renderer.parser.parse(blocks[3]))
    cards = "".join(f'<li><a href="{url}">{name}</a><p>{html.escape(what)}</p></li>\n' for url, name, what in CARDS if url in urls)
    body = START.format(introduction=re.sub(r"</?p>", "", introduction), formula=shown, more=more, cards=cards)
    return Page("index.html", "Manual", body)


def main(root, program, folder):
    root, folder = Path(root).resolve(), Path(folder).resolve()
    if folder.exists() and not (folder / "search-index.js").exists() and any(folder.iterdir()):
        sys.exit(f"manual: {folder} holds something else, expected a new folder or an earlier manual")
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as work:
        data = help_of(program, Path(work))
        reference = headers.header_pages(root, work)
    menu = menu_of(root)
    urls = {path: re.sub(r"\.\w+$", ".html", path) for path in menu}
    sources = pages.Sources(root, urls, help_pages.links(data))

    def renderer_of(path, url):
        return pages.Renderer(sources, path, url)

    site = [start_page(root, renderer_of, {*urls.values(), "help/index.html"})]
    drawn = {}
    for path, (group, short) in menu.items():
        text = (root / path).read_text(encoding="utf-8")
        if path.endswith(".ipynb"):
            notebook = NotebookRenderer(sources, path, urls[path])
            site.append(notebook.page(text, group, short))
            drawn.update(notebook.pictures)
        else:
            site.append(renderer_of(path, urls[path]).page(text, group, short))
    calls = re.findall(r"`(core/[\w/]+\.hpp)`", (root / "docs/cpp.md").read_text(encoding="utf-8"))
    site += [headers.index_page(reference, calls), *reference, python_page(root), *help_pages.help_pages(data)]
    site += [pages.file_page(sources, path, url) for path, url in sorted(sources.linked.items())]
    order = {name: i for i, name in enumerate(["Start", "Notebooks", "Help", "Reference", "Kernels", "Proofs", "Results", "Project", ""])}
    site.sort(key=lambda page: order[page.group])
    records = frame.write(site, folder, version_of(program))
    for url, svg in drawn.items():
        (folder / url).write_text(svg, encoding="utf-8")
    for path in sources.pictures:
        place = folder / "files" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, place)
    broken = links.broken(folder)
    if broken:
        sys.exit("manual: links that lead nowhere:\n  " + "\n  ".join(broken))
    print(f"{len(site)} pages, {records} entries of search, every link within them checked")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
