-- The figures that a document quotes in its running text: quoted(item, handlers), handlers by the name of the quantity:
--   function(value, row) -> kind, verdict, claim      a statement, judged
--   "…"                                               why it is none: what they ran it on, or where it is judged
-- Each figure needs one of the two.
return function(item, handlers)
  local rows = {}
  for i, row in ipairs(item:printed()) do
    local handler = handlers[row.quantity]
    if handler == nil then
      error(string.format("%s: nothing is said of the figure %s", item.document, row.quantity), 0)
    end
    local line = { what = row.quantity:gsub("_", " "), printed = string.format("%s %s", tostring(row.value),
      row.unit), place = row.place }
    if type(handler) == "string" then
      line.verdict, line.here = "–", handler
    else
      local kind, verdict, claim = handler(row.value, row)
      item:judge(line.what, kind, verdict, claim)
      line.verdict, line.here = verdict.verdict, verdict.statistic
    end
    rows[i] = line
  end
  item:table(rows, { title = "Figures of the text", columns = { { key = "what", title = "figure" }, "printed", "place",
    "verdict", "here" } })
end
