-- One self-contained HTML page from parts: no network, light and dark, narrow and wide screens, print.
local causeway = ...

local raise = causeway._raise

local function escaped(text) return causeway._escape_html(text) end

local style = [[
:root { color-scheme: light dark; --paper: #ffffff; --ink: #202124; --soft: #5f6368; --line: #dadce0; --card: #f8f9fa;
  --accent: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #17191c; --ink: #e8eaed; --soft: #9aa0a6; --line: #3c4043; --card: #1f2226; --accent: #56b4e9; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
main { max-width: 58rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .75rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
p { margin: .6rem 0; white-space: pre-line; }
pre { overflow-x: auto; padding: .8rem 1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; font: .85rem/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .4rem; }
th, td { padding: .35rem .9rem .35rem 0; text-align: left; white-space: nowrap; }
th { border-bottom: 2px solid var(--line); font-weight: 600; }
td { border-bottom: 1px solid var(--line); }
.table p, footer { color: var(--soft); font-size: .88rem; }
figure { margin: 1.25rem 0; padding: .75rem; background: #ffffff; border: 1px solid var(--line); border-radius: 8px;
  overflow-x: auto; }
figure svg { display: block; width: 100%; height: auto; min-width: 26rem; margin: 0 auto; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .75rem; white-space: pre-line; }
@media print { figure, table { break-inside: avoid; } }
]]

-- An SVG document as an element of a page; its ids get a prefix, since all figures of a page share one name space.
local function inline_svg(svg, number)
  svg = svg:gsub("^.-(<svg)", "%1")
  local prefix = "f" .. number .. "-"
  svg = svg:gsub("(%sid=['\"])", "%1" .. prefix):gsub("(href=['\"]#)", "%1" .. prefix):gsub("(url%(#)", "%1" .. prefix)
  -- No larger than drawn: the page scales it down where there is less room.
  local width = svg:match('viewBox="0 0 (%d+)')
  return width and svg:gsub("<svg", '<svg style="max-width:' .. width .. 'px"', 1) or svg
end

local function html_of(part, number)
  if type(part) == "string" then return "<p>" .. escaped((part:gsub("^\n+", ""))) .. "</p>" end
  local meta = getmetatable(part)
  if meta and meta.__rich then
    local rich = meta.__rich(part)
    if rich.html and rich.html ~= "" then return rich.html end
    if rich.svg and rich.svg ~= "" then return "<figure>" .. inline_svg(rich.svg, number) .. "</figure>" end
    return "<pre>" .. escaped(rich.text) .. "</pre>"
  end
  if type(part) == "table" and part.heading then return "<h2>" .. escaped(part.heading) .. "</h2>" end
  if type(part) == "table" and part.code then return "<pre>" .. escaped(part.code) .. "</pre>" end
  raise(string.format("report: part %d: expected a text, {heading = ...}, {code = ...}, a table or a picture, got a %s",
    number, type(part)))
end

causeway._options.report = { title = true, save = true }

--- An HTML page: report{title = ..., save = "x.html", part, part, ...}; a part is a text, {heading = TEXT}, {code =
--- TEXT}, a table, a picture or any value with __rich. Returns the page as a string; with `save` it is also written.
function causeway.report(parts)
  if type(parts) ~= "table" then
    raise("report: expected a table {title = ..., part, ...}, got " .. (parts == nil and "nothing"
      or "a " .. type(parts)))
  end
  local options = {}
  for key, value in pairs(parts) do
    if math.type(key) ~= "integer" then options[key] = value end
  end
  causeway._check_options("report", options)
  local title = escaped(options.title or "causeway")
  local out = {
    "<!doctype html>",
    '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
    "<title>" .. title .. "</title>",
    "<style>\n" .. style .. "</style></head><body><main>",
    "<h1>" .. title .. "</h1>",
  }
  for i, part in ipairs(parts) do out[#out + 1] = html_of(part, i) end
  out[#out + 1] = "<footer>" .. escaped(tostring(causeway.machine())) .. "\n" .. os.date("!%Y-%m-%d %H:%M UTC")
    .. "</footer>"
  out[#out + 1] = "</main></body></html>\n"
  local page = table.concat(out, "\n")
  if options.save ~= nil then
    if type(options.save) ~= "string" then raise("report: save: expected a file name, got a " .. type(options.save)) end
    causeway._replace_file(options.save, page)
  end
  return page
end
