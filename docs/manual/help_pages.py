"""The help of the shell, a page for each topic: what `?name` says, with all options, sources and examples."""

import html
import re

import formula
from frame import Page, slug


def _inline(text):
    return formula.inline(re.sub(r"\s+", " ", text).strip())


def laid_out(text):
    """Text of help as HTML: paragraphs flow; a line that begins with a blank is one of its own, with what is set in
    deeper below it; lines of a name and what it means are a list."""
    out, paragraph, items = [], [], []

    def flush():
        if paragraph:
            out.append(f"<p>{_inline(' '.join(paragraph))}</p>")
            paragraph.clear()
        if items:
            out.append(_items(items))
            items.clear()

    for line in text.split("\n"):
        if items and re.match(r"^ {5}", line):
            items[-1] += " " + line.strip()
        elif not line.strip():
            flush()
        elif line[0].isspace():
            if paragraph:
                flush()
            items.append(line)
        else:
            if items:
                flush()
            paragraph.append(line)
    flush()
    return "\n".join(out)


def _name(text):
    return formula.to_mathml(text) if formula.is_formula(text) else html.escape(text, quote=False)


def _items(lines):
    rows = [re.match(r"^\s*(\S.*?)\s{2,}(\S.*)$", line) for line in lines]
    if all(rows):
        return '<dl class="rows">' + "".join(
            f"<dt>{_name(row[1])}</dt><dd>{_inline(row[2])}</dd>" for row in rows) + "</dl>"
    text = "\n".join(line.strip() for line in lines)
    if formula.is_formula(text):
        return formula.block_html(text)
    return f"<pre><code>{html.escape(text, quote=False)}</code></pre>"


def _code(text):
    return f"<pre><code>{html.escape(text, quote=False)}</code></pre>"


def _section(section):
    ways = [re.sub(r"\s+", " ", way) for way in re.split(r"  +", section["call"].strip()) if way]
    out = [f'<p class="what">{html.escape(section["what"])}</p>', _code("\n".join(ways)), laid_out(section["text"])]
    if section.get("options"):
        lines = re.sub(r"^ {1,4}(?=\S)", "  ", section["options"], flags=re.MULTILINE)
        out += ["<h4>options</h4>", laid_out(lines)]
    for part in section["parts"]:
        text = part["text"]
        shown = formula.block_html(text) if part["heading"] == "formula" else laid_out(text)
        out += [f"<h4>{html.escape(part['heading'])}</h4>", shown]
    if section.get("notes"):
        out.append(laid_out(section["notes"]))
    if section["sources"]:
        lines = "".join(f"<li>{_inline(line)}</li>" for line in section["sources"])
        out += ["<h4>source</h4>", f"<ul>{lines}</ul>"]
    if section.get("example"):
        out += ["<h4>example</h4>", _code(section["example"])]
    return "\n".join(out)


def anchors(data):
    """(name, topic) -> anchor. The names of a topic in the order in which its page has them."""
    found, taken = {}, {}
    for name in sorted(data["names"], key=str.lower):
        for topic in {section["topic"] for section in data["names"][name]["sections"]}:
            found[name, topic] = slug(name.replace("+", "-plus").replace(":", "-"), taken.setdefault(topic, set()))
    return found


def links(data):
    """What a code span of a page may say to lead to help: ?name of every name, name of every function."""
    found, places = {}, anchors(data)
    for name, entry in data["names"].items():
        first = entry["sections"][0]
        url = f"help/{first['topic']}.html#{places[name, first['topic']]}"
        for one in [name, *entry["aliases"]]:
            found["?" + one] = url
        if any(section["what"] == "a function" for section in entry["sections"]):
            found[name] = found[f"{name}()"] = url
    for topic in {topic for _, topic in places}:
        found.setdefault("?" + topic, f"help/{topic}.html")
    return found


def help_pages(data):
    places = anchors(data)
    topics = sorted({topic for _, topic in places})
    index = ["<h1 id=\"help\">Everything by its name</h1>",
             "<p>What <code>?name</code> shows at the prompt, by topic; every example runs in a fresh shell. Names of the "
             "literature and of other libraries are found by the search.</p>"]
    pages = [Page("help/index.html", "Everything by its name", "", "Help", "A to Z")]
    for topic in topics:
        names = [name for name, where in places if where == topic]
        summary = data["topics"].get(topic, "")
        body = [f'<h1 id="top">{html.escape(topic)}</h1>', f"<p>{_inline(summary)}</p>", '<ul class="names">']
        body += [f'<li><a href="#{places[name, topic]}">{html.escape(name)}</a></li>' for name in names] + ["</ul>"]
        for name in names:
            entry, anchor = data["names"][name], places[name, topic]
            body.append(f'<h2 id="{anchor}">{html.escape(name)}<a class="anchor" href="#{anchor}">#</a></h2>')
            body += [_section(section) for section in entry["sections"] if section["topic"] == topic]
            if entry["aliases"]:
                body.append(f'<p class="also">elsewhere: {html.escape(", ".join(entry["aliases"]))}</p>')
        pages.append(Page(f"help/{topic}.html", topic, "\n".join(body), "Help"))
        items = [f'<li><a href="{topic}.html#{places[name, topic]}">{html.escape(name)}</a></li>' for name in names]
        index.append(f'<h2 id="{topic}"><a href="{topic}.html">{html.escape(topic)}</a></h2><p>{_inline(summary)}</p>'
                     f'<ul class="names">{"".join(items)}</ul>')
    pages[0].body = "\n".join(index)
    pages[0].searched = False
    return pages
