"""The reference of the C++ libraries and of causeway.h: a page for each header, read by Doxygen.

The sources have plain comments, `//` and `/* */`, before what they describe or behind it in the line. A copy of the headers
in which those are Doxygen's is what Doxygen reads; it writes XML, out of which the pages are made.
"""

import html
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import formula
from frame import Page, relative

ESCAPED = {"\\": "\\\\", "@": "\\@", "&": "\\&", "$": "\\$", "#": "\\#", "<": "\\<", ">": "\\>", "%": "\\%", '"': '\\"'}


def _escaped(text):
    return "".join(ESCAPED.get(letter, letter) for letter in text)


def _comment(lines, mark):
    """Lines of text as a comment of Doxygen; what is set in by three blanks or more stays as it is laid out."""
    out, verbatim = [], False
    for line in lines:
        if bool(re.match(r" {3,}\S", line)) != verbatim and line.strip():
            out.append(f"{mark} @{'end' if verbatim else ''}verbatim")
            verbatim = not verbatim
        out.append(f"{mark} {line if verbatim else _escaped(line.strip())}")
    return out + ([f"{mark} @endverbatim"] if verbatim else [])


def documented(text):
    """C++ with the comments before a declaration and behind it as Doxygen reads them."""
    out, lines, i, behind = [], text.split("\n"), 0, None
    while i < len(lines):
        line = lines[i]
        whole = re.match(r"^(\s*)//(?!/)(.*)$", line)
        if whole and behind is not None and len(whole[1]) > behind:  # goes on from the comment behind the code above
            out.append(f"{whole[1]}///< {_escaped(whole[2].strip())}")
            i += 1
            continue
        behind = None
        if whole:
            block = []
            while i < len(lines) and (match := re.match(r"^\s*//(?!/)(.*)$", lines[i])):
                block.append(match[1].removeprefix(" "))
                i += 1
            if not out:
                out += ["/// @file"] + _comment(block, "///")
            elif i < len(lines) and lines[i].strip():
                out += _comment(block, "///")
            continue
        tail = re.match(r"^(\s*)(\S.*?[;,{)}])\s*//\s?(.*)$", line)
        if tail and '"' not in tail[2]:
            behind = len(tail[1])
            line = f"{tail[1]}{tail[2]} ///< {_escaped(tail[3])}"
        out.append(line)
        i += 1
    return "\n".join(out)


def documented_c(text):
    """The same of the C header, whose comments are /* */."""
    def replaced(match):
        start = text.rfind("\n", 0, match.start()) + 1
        alone = text[start : match.start()].strip() == ""
        lines = [re.sub(r"^\s*\*? ?", "", line) if k else line for k, line in enumerate(match[1].split("\n"))]
        mark = "/**" if alone else "/**<"
        first = " @file" if match.start() == 0 else ""
        return "\n".join([mark + first, *_comment(lines, ""), "*/"]) if alone else f"{mark} {_escaped(match[1].strip())} */"

    return re.sub(r"/\*(.*?)\*/", replaced, text, flags=re.DOTALL)


DOXYFILE = """
INPUT = {folder}
OUTPUT_DIRECTORY = {out}
STRIP_FROM_PATH = {folder}
FILE_PATTERNS = *.hpp *.h *.cuh
RECURSIVE = YES
EXTENSION_MAPPING = cuh=C++ h=C++
EXTRACT_ALL = YES
EXTRACT_STATIC = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
MARKDOWN_SUPPORT = NO
AUTOLINK_SUPPORT = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = CAUSEWAY_API= __attribute__(x)= __host__= __device__= __global__= __forceinline__=
QUIET = YES
WARNINGS = NO
NUM_PROC_THREADS = 2
"""


C_HEADERS = {"core/c/causeway.h": "cpp/c.html", "gpu/c/causeway_gpu.h": "cpp/c_gpu.html"}


def headers_of(root):
    """The headers that are documented, by their paths: all of the two libraries, of the C interface its own one."""
    root = Path(root)
    found = [p for folder in ("core", "gpu") for end in ("*.hpp", "*.cuh") for p in (root / folder).rglob(end)]
    found = [p.relative_to(root) for p in found if "core/c/" not in p.as_posix() and p.name != "precompiled.hpp"]
    return sorted([path for path in found if "install" not in path.parts] + [Path(path) for path in C_HEADERS])


def read(root, work):
    """Runs Doxygen on the headers of the repository; returns its XML, an element for each compound."""
    folder, out = Path(work) / "headers", Path(work) / "doxygen"
    for path in headers_of(root):
        text = (Path(root) / path).read_text(encoding="utf-8")
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text((documented_c if path.suffix == ".h" else documented)(text), encoding="utf-8")
    out.mkdir(parents=True, exist_ok=True)
    settings = DOXYFILE.format(folder=folder.resolve(), out=out.resolve())
    subprocess.run(["doxygen", "-"], input=settings, text=True, check=True, stdout=subprocess.DEVNULL)
    return [element for path in sorted((out / "xml").glob("*.xml"))
            for element in ElementTree.parse(path).getroot().iter("compounddef")]


def _text(element):
    """What an element says, its references and marks dropped."""
    return "".join(element.itertext()) if element is not None else ""


def _description(element):
    """The comment of a declaration as HTML."""
    out = []
    for which in ("briefdescription", "detaileddescription", "inbodydescription"):
        found = element.find(which)
        if found is None:
            continue
        for para in found.iter("para"):
            words = [para.text or ""]
            for child in para:
                if child.tag in ("verbatim", "preformatted"):
                    out.append(_paragraph("".join(words)))
                    words = []
                    block = "\n".join(line.rstrip() for line in _text(child).strip("\n").split("\n"))
                    out.append(formula.block_html(block) if formula.is_formula(block)
                               else f"<pre><code>{html.escape(block, quote=False)}</code></pre>")
                elif child.tag != "para":
                    words.append(_text(child))
                words.append(child.tail or "")
            out.append(_paragraph("".join(words)))
    return "\n".join(filter(None, out))


def _paragraph(text):
    text = re.sub(r"\s+", " ", text).strip()
    return f"<p>{formula.prose(text)}</p>" if text else ""


def _tidy(code):
    """A declaration as the sources lay it out; Doxygen has blanks of its own."""
    code = re.sub(r"< (?=\S)", "<", code)
    code = re.sub(r"(?<=\S) (?=>)", "", code)
    code = re.sub(r" ([*&]+) ?(?=\w)", r"\1 ", code)
    return re.sub(r"(?<=[\w&*])=(?=[\w{])", " = ", code)


def _declaration(member):
    kind, name = member.get("kind"), _text(member.find("name"))
    types = _text(member.find("type"))
    if kind == "enum":
        values = ", ".join(_text(v.find("name")) + _text(v.find("initializer")).replace("= ", " = ")
                           for v in member.findall("enumvalue"))
        return f"enum {name} {{{values}}};".replace("  ", " ")
    if kind == "define":
        return f"#define {name} {_text(member.find('initializer'))}".strip()
    if kind == "typedef" and "using " in _text(member.find("definition")):
        return re.sub(r"=\s+", "= ", _text(member.find("definition"))) + ";"
    template = ""
    if member.find("templateparamlist") is not None:
        params = [f"{_text(p.find('type'))} {_text(p.find('declname'))}".strip()
                  for p in member.find("templateparamlist").findall("param")]
        template = f"template<{', '.join(params)}>\n"
    arguments = _text(member.find("argsstring"))
    value = _text(member.find("initializer"))
    if kind == "variable" and (len(value) > 100 or "\n" in value):
        value = "= …"
    head = "typedef " if kind == "typedef" else ""
    static = "static " if member.get("static") == "yes" and "static" not in types else ""
    return f"{template}{head}{static}{types} {name}{arguments}{' ' + value if value else ''};".strip()


def _member(member):
    text = _description(member)
    code = html.escape(_tidy(_declaration(member)), quote=False)
    values = "".join(f"<dt>{html.escape(_text(v.find('name')))}</dt><dd>{_description(v)}</dd>"
                     for v in member.findall("enumvalue") if _description(v))
    return f"<pre><code>{code}</code></pre>\n{text}" + (f'<dl class="rows">{values}</dl>' if values else "")


def _place(element):
    location = element.find("location")
    return (location.get("declfile") or location.get("file"),
            int(location.get("declline") or location.get("line") or 0)) if location is not None else (None, 0)


def header_pages(root, work):
    """A page for each header, and their indices."""
    root = Path(root)
    texts, parts = {}, {}  # path -> its comment; path -> [(line, name, HTML)]
    for compound in read(root, work):
        kind = compound.get("kind")
        if kind == "file":
            texts[compound.find("location").get("file")] = _description(compound)
        if kind in ("struct", "class", "union"):
            path, line = _place(compound)
            name = _text(compound.find("compoundname")).removeprefix("causeway::")
            if "@" in name or "anonymous" in name:
                continue
            members = sorted((m for m in compound.iter("memberdef") if m.get("prot") == "public"), key=_place)
            shown = [f'<h2 id="{_anchor(name)}"><code>{kind} {html.escape(name)}</code></h2>', _description(compound)]
            parts.setdefault(path, []).append((line, name, "\n".join(shown + [_member(m) for m in members])))
        elif kind in ("file", "namespace"):
            for member in compound.iter("memberdef"):
                path, line = _place(member)
                name = _text(member.find("name"))
                if path and name and "@" not in name and (line, name) not in [(p[0], p[1]) for p in parts.get(path, [])]:
                    named = f'<h3 id="{_anchor(name)}-{line}">{html.escape(name)}</h3>'
                    parts.setdefault(path, []).append((line, name, f"{named}\n{_member(member)}"))
    found = []
    for path in map(str, headers_of(root)):
        body = [f"<h1>{html.escape(path)}</h1>", texts.get(path, "")]
        body += [part[2] for part in sorted(parts.get(path, []), key=lambda part: part[0])]
        url = C_HEADERS.get(path, f"cpp/{path}.html")
        found.append(Page(url, path.rpartition("/")[2] if path in C_HEADERS else path, "\n".join(body)))
    return found


def _anchor(name):
    return re.sub(r"\W+", "-", name.lower()).strip("-")


def index_page(pages, calls):
    """All headers by folder; `calls` are those that programs begin with."""
    by_path = {page.url.removeprefix("cpp/").removesuffix(".html"): page for page in pages}
    def items(paths):
        return "".join(f'<li><a href="{relative("cpp/index.html", by_path[p].url)}">{html.escape(p)}</a></li>' for p in paths)

    folders = {}
    for path in by_path:
        if f"cpp/{path}.html" not in C_HEADERS.values():
            folders.setdefault(path.rpartition("/")[0], []).append(path)
    body = ['<h1 id="cpp">C++ and C</h1>',
            '<p>How to build with them is told in <a href="../docs/cpp.html">From C++, C and Python</a>. The C interface '
            'is one header, <a href="c.html">causeway.h</a>, and <a href="c_gpu.html">causeway_gpu.h</a> that of a GPU.</p>',
            "<h2 id=\"calls\">Where programs begin</h2>",
            f"<ul>{items(path for path in dict.fromkeys(calls) if path in by_path)}</ul>"]
    for folder in sorted(folders):
        body.append(f'<h2 id="{_anchor(folder)}">{html.escape(folder)}</h2><ul class="names">{items(sorted(folders[folder]))}</ul>')
    return Page("cpp/index.html", "C++ and C", "\n".join(body), "Reference", "C++")
