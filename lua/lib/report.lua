-- One self-contained HTML page from parts: no network, light and dark, narrow and wide screens, print.
local causeway = ...

local raise, noun = causeway._raise, causeway._noun
local long_rows = 10         -- a table with more rows stands behind the texts and pictures of its section
local folded_rows = 20       -- one with more than that is folded too

local what_parts_are = "a text, {heading = ...}, {code = ...}, a table or a picture"

local function escaped(text) return causeway._escape_html(text) end

local style = [[
:root { color-scheme: light dark; --paper: #ffffff; --ink: #202124; --soft: #5f6368; --line: #dadce0; --card: #f8f9fa;
  --accent: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #17191c; --ink: #e8eaed; --soft: #9aa0a6; --line: #3c4043; --card: #1f2226; --accent: #56b4e9; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: break-word;
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
main { max-width: 58rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .75rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 2rem 0 .4rem; }
p { margin: .6rem 0; }
a { color: var(--accent); }
nav ul, .data { margin: .6rem 0; padding-left: 1.25rem; }
pre { overflow-x: auto; padding: .8rem 1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; font: .85rem/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre.command { white-space: pre-wrap; }
.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .4rem; }
th, td { padding: .35rem .9rem .35rem 0; text-align: left; white-space: nowrap; }
th { border-bottom: 2px solid var(--line); font-weight: 600; }
td { border-bottom: 1px solid var(--line); vertical-align: top; }
.long { white-space: normal; min-width: 16rem; }
.table p, footer, figcaption { color: var(--soft); font-size: .88rem; }
summary { cursor: pointer; color: var(--accent); }
.copy { margin: -.6rem 0 1rem; color: var(--soft); font-size: .82rem; }
.copy button { font: inherit; color: var(--accent); background: none; border: 1px solid var(--line);
  border-radius: 6px; padding: .1rem .5rem; margin-left: .3rem; cursor: pointer; }
figure { margin: 1.25rem 0; overflow-x: auto; }
figure svg { display: block; width: 100%; height: auto; margin: 0 auto; }
figure svg .paper { fill: none; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .75rem; }
footer p { white-space: pre-line; }
@media (max-width: 40rem) { main { padding: 1.25rem .9rem 3rem; } figure svg { min-width: 26rem; } }
@media print { .copy { display: none; }
  figure, table { break-inside: avoid; } details::details-content { content-visibility: visible; } }
]]

-- Buttons that copy a table come from the page's script, so a page without scripts has none that do nothing.
local copy_script = [[
<script>
for (const place of document.querySelectorAll(".copy")) {
  place.append("Copy as");
  for (const form of place.querySelectorAll("template")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = form.dataset.form;
    button.onclick = async () => {
      const text = form.content.textContent;
      try {
        await navigator.clipboard.writeText(text);
      } catch (refused) { // a page opened from a disk may not use the clipboard
        const area = document.createElement("textarea");
        area.value = text;
        place.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
      }
      button.textContent = "copied";
      setTimeout(() => { button.textContent = form.dataset.form; }, 1500);
    };
    place.append(button);
  }
}
</script>
]]

-- ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────

-- An SVG document as an element of a page; its ids get a prefix, since all figures of a page share one name space.
local function inline_svg(svg, number)
  svg = svg:gsub("^.-(<svg)", "%1")
  local prefix = "f" .. number .. "-"
  svg = svg:gsub("(%sid=['\"])", "%1" .. prefix):gsub("(href=['\"]#)", "%1" .. prefix):gsub("(url%(#)", "%1" .. prefix)
  -- No larger than drawn: the page scales it down where there is less room.
  local width = svg:match('viewBox="0 0 (%d+)')
  return width and svg:gsub("<svg", '<svg style="max-width:' .. width .. 'px"', 1) or svg
end

-- A text is one paragraph, of as many lines as the page is narrow; an empty line begins the next one.
local function paragraphs(text)
  local out = {}
  for paragraph in (text:gsub("\r\n", "\n") .. "\n\n"):gmatch("(.-)\n[ \t]*\n") do
    if paragraph:find("%S") then out[#out + 1] = "<p>" .. escaped((paragraph:gsub("^%s+", ""))) .. "</p>" end
  end
  return table.concat(out, "\n")
end

-- A long table under a line that opens it; the line takes the place of the table's title.
local function folded(html, rows)
  local title = html:match("<caption>(.-)</caption>")
  html = html:gsub("<caption>.-</caption>", "", 1)
  return string.format("<details><summary>%s (%d rows)</summary>\n%s</details>", title or "Table", rows, html)
end

local copy_forms = { { "csv", "CSV" }, { "markdown", "Markdown" }, { "latex", "LaTeX" } }

-- The forms in which a table can be copied, unseen; "" for what has none.
local function copies(rich)
  local parts = {}
  for _, form in ipairs(copy_forms) do
    local text = rich[form[1]]
    if text then
      parts[#parts + 1] = string.format('<template data-form="%s">%s</template>', form[2], escaped(text))
    end
  end
  return #parts > 0 and '\n<div class="copy">' .. table.concat(parts) .. "</div>" or ""
end

-- The text of a picture where gnuplot is missing, and that it is.
local function picture_html(part, rich, number)
  local drawn, svg = pcall(function() return rich.svg end)
  if drawn and (not svg or svg == "") then return nil end
  if drawn then return "<figure>" .. inline_svg(svg, number) .. "</figure>" end
  if causeway.error_kind(svg) ~= "I/O" or getmetatable(part).__name ~= "Figure" then error(svg, 0) end
  local reason = tostring(svg):gsub("^[^:]*:%d+: ", "")
  return string.format("<figure><pre>%s</pre><figcaption>%s</figcaption></figure>",
    escaped((rich.text:gsub("\27%[[%d;]*m", ""))), escaped(reason))
end

local function check_level(part, number)
  local level = part.level or 2
  if level == 2 or level == 3 then return level end
  raise(string.format("report: part %d: level: %s, expected 2 or 3", number, tostring(level)))
end

-- A part as {html =, kind = "heading", "figure", "table" (a long one) or "text", heading = its text}; nil where it is
-- empty.
local function read_part(part, number, with_copies, stays)
  if type(part) == "string" then
    local html = paragraphs(part)
    return html ~= "" and { html = html, kind = "text" } or nil
  end
  local meta = getmetatable(part)
  if meta and meta.__rich then
    local rich = meta.__rich(part)
    if rich.html and rich.html ~= "" then
      local _, rows = rich.html:gsub("<tr[ >]", "")
      rows = rows - 1 -- without the header
      local html = rich.html .. (with_copies and copies(rich) or "")
      if rows > folded_rows and not stays then html = folded(html, rows) end
      return { html = html, kind = rows > long_rows and not stays and "table" or "text" }
    end
    local picture = picture_html(part, rich, number)
    if picture then return { html = picture, kind = "figure" } end
    return { html = "<pre>" .. escaped(rich.text) .. "</pre>", kind = "text" }
  end
  if type(part) == "table" and part.heading then
    return { kind = "heading", heading = tostring(part.heading), level = check_level(part, number), id = part.id }
  end
  if type(part) == "table" and part.open then return read_part(part.open, number, with_copies, true) end
  if type(part) == "table" and part.code then
    local code = tostring(part.code)
    return code:find("%S") and { html = "<pre>" .. escaped(code) .. "</pre>", kind = "text" } or nil
  end
  if type(part) == "table" and type(part[1]) == "table" then
    raise(string.format("report: part %d: a list of tables, of which text_table(rows) makes a table to show", number))
  end
  local list = type(part) == "table" and part[1] ~= nil
  raise(string.format("report: part %d: expected %s, got %s", number, what_parts_are, list
    and "a list; text_table{name = list} is a table of it" or type(part) == "table" and "a table of values"
    or noun(part)))
end

-- ── The order of a page ──────────────────────────────────────────────────────────────────────────────────────────

-- The parts by their headings: {heading =, level =, parts}, the first one perhaps without. A heading with nothing below
-- it is left out, unless a heading of a deeper level comes next. Long tables stand behind the last picture of their
-- section.
local function sections_of(parts, with_copies)
  local sections = { {} }
  for i, given in ipairs(parts) do
    local part = read_part(given, i, with_copies)
    if part and part.kind == "heading" then
      sections[#sections + 1] = { heading = part.heading, level = part.level, id = part.id }
    elseif part then
      local section = sections[#sections]
      section[#section + 1] = part
    end
  end
  local kept = {}
  for at, section in ipairs(sections) do
    local last_figure, next_level = 0, sections[at + 1] and sections[at + 1].level or 2
    for i, part in ipairs(section) do
      if part.kind == "figure" then last_figure = i end
    end
    local ordered, tables = { heading = section.heading, level = section.level, id = section.id }, {}
    for i, part in ipairs(section) do
      local list = i < last_figure and part.kind == "table" and tables or ordered
      list[#list + 1] = part
      if i == last_figure then table.move(tables, 1, #tables, #ordered + 1, ordered) end
    end
    if #ordered > 0 or section.heading and next_level > section.level then
      kept[#kept + 1] = ordered
      ordered.id = ordered.id and tostring(ordered.id) or "s" .. #kept
    end
  end
  return kept
end

-- Of headings of level 2.
local function contents(sections)
  local lines = {}
  for _, section in ipairs(sections) do
    if section.heading and section.level == 2 then
      lines[#lines + 1] = string.format('<li><a href="#%s">%s</a></li>', escaped(section.id), escaped(section.heading))
    end
  end
  if #lines < 2 then return nil end
  return '<nav aria-label="Contents"><ul>\n' .. table.concat(lines, "\n") .. "\n</ul></nav>"
end

-- ── What made the page ───────────────────────────────────────────────────────────────────────────────────────────

local function path_parts(path)
  local list = {}
  for part in path:gmatch("[^/]+") do
    if part ~= "." then list[#list + 1] = part end
  end
  return list
end

-- How a page at one path names a file at another: both from the same folder, or both from the root.
local function relative(file, page)
  local rooted = file:sub(1, 1) == "/"
  if rooted ~= (page:sub(1, 1) == "/") then return file end
  local from, to = path_parts(page), path_parts(file)
  from[#from] = nil
  local same = 0
  while same < #from and same < #to - 1 and from[same + 1] == to[same + 1] do same = same + 1 end
  return string.rep("../", #from - same) .. table.concat(to, "/", same + 1)
end

-- A path as an address: what a name may have and an address may not, as %xx.
local function address(path)
  path = path:gsub("[^%w%-._~/]", function(c) return string.format("%%%02X", c:byte()) end)
  return escaped(path)
end

local function data_links(data, page)
  if data == nil then return nil end
  if type(data) == "string" then data = { data } end
  if type(data) ~= "table" then raise("report: data: expected a file name or a list of them, got " .. noun(data)) end
  local lines = {}
  for i, path in ipairs(data) do
    if type(path) ~= "string" then
      raise(string.format("report: data: item %d: expected a file name, got %s", i, noun(path)))
    end
    local file = io.open(path, "rb")
    if not file then raise(string.format('report: data: "%s" cannot be read, expected a file that is there', path)) end
    file:close()
    local link = page and relative(path, page) or path
    lines[#lines + 1] = string.format('<li><a href="%s">%s</a></li>', address(link), escaped(link))
  end
  return #lines > 0 and "<p>Data:</p>\n<ul class=\"data\">\n" .. table.concat(lines, "\n") .. "\n</ul>" or nil
end

-- A word as a shell reads it back.
local function shell_word(word)
  if word:find("^[%w%-._~/=,:+@%%]+$") then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

local function command_html()
  local words = {}
  for i, word in ipairs(causeway._command or {}) do words[i] = shell_word(word) end
  if #words == 0 then return nil end
  if #words == 1 then return "<p>Made at the prompt.</p>" end
  return '<p>Made by:</p>\n<pre class="command">' .. escaped(table.concat(words, " ")) .. "</pre>"
end

causeway._options.report = { title = true, save = true, data = true, copy = true }

-- A page: print and # are of its HTML, the prompt says what it is and where.
local Page = { __name = "Page" }
causeway._only_fields(Page, { what = "a page", fields = "title html path" })

local function check_path(path, argument)
  if type(path) ~= "string" then raise(argument .. ": expected a file name, got " .. noun(path)) end
  if not path:lower():find("%.html?$") then
    raise(string.format('%s: "%s", expected a name that ends in .html; a browser prints the page to PDF', argument,
      path))
  end
end

--- Writes the page to a file and returns it. What it links to, the data, is named from where `save` of report put it.
function Page:save(path)
  check_path(path, "save")
  causeway._replace_file(path, self.html)
  self.path = path
  return self
end

function Page.__tostring(page) return page.html end
function Page.__len(page) return #page.html end

function Page.__rich(page)
  local where = page.path and "saved as " .. page.path or 'not saved: report{save = "page.html", ...} does'
  return { text = string.format("Page \"%s\", %s\n  %s", page.title, causeway.bytes_text(#page.html), where) }
end

--- An HTML page: report{title = ..., save = "x.html", data = files, part, part, ...}; a part is a text, {heading =
--- TEXT, level = 2 or 3, id =}, {code = TEXT}, a table, a picture, any value with __rich, or {open = a table that is
--- not folded}. With `copy` tables can be copied as CSV, Markdown and LaTeX. Returns the page, which print shows as its
--- HTML; with `save` it is also written.
function causeway.report(parts)
  if type(parts) ~= "table" or (getmetatable(parts) or {}).__rich then
    raise("report: expected its parts in braces, report{title = ..., part, ...}, got " .. noun(parts))
  end
  local options, last = {}, 0
  for key, value in pairs(parts) do
    if math.type(key) == "integer" and key < 1 then
      raise(string.format("report: part %d: parts are counted from 1", key))
    end
    if math.type(key) ~= "integer" then options[key] = value else last = math.max(last, key) end
  end
  for i = 1, math.max(last, 1) do
    if parts[i] == nil then raise(string.format("report: part %d: nothing, expected %s", i, what_parts_are)) end
  end
  causeway._check_options("report", options)
  local path = options.save
  if options.copy ~= nil and type(options.copy) ~= "boolean" then
    raise("report: copy: expected true or false, got a " .. type(options.copy))
  end
  if path ~= nil then check_path(path, "report: save") end
  local name = options.title or "causeway"
  local title = escaped(name)
  local out = {
    "<!doctype html>",
    '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
    "<title>" .. title .. "</title>",
    "<style>\n" .. style .. "</style></head><body><main>",
    "<h1>" .. title .. "</h1>",
  }
  local sections = sections_of(parts, options.copy)
  out[#out + 1] = contents(sections)
  for _, section in ipairs(sections) do
    if section.heading then
      out[#out + 1] = string.format('<h%d id="%s">%s</h%d>', section.level, escaped(section.id),
        escaped(section.heading), section.level)
    end
    for _, part in ipairs(section) do out[#out + 1] = part.html end
  end
  out[#out + 1] = "<footer>"
  out[#out + 1] = data_links(options.data, path)
  out[#out + 1] = command_html()
  out[#out + 1] = "<p>" .. escaped(tostring(causeway.machine())) .. "\n" .. os.date("!%Y-%m-%d %H:%M UTC") .. "</p>"
  out[#out + 1] = "</footer></main>" .. (options.copy and "\n" .. copy_script or "") .. "</body></html>\n"
  local page = table.concat(out, "\n")
  if path ~= nil then causeway._replace_file(path, page) end
  return setmetatable({ title = name, html = page, path = path }, Page)
end
