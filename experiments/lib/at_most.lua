-- at_most(list, most, name): the items of a list option that are at most `most`, which is what --quick leaves of it.
return function(list, most, name)
  local kept = {}
  for _, item in ipairs(list) do
    if item <= most then kept[#kept + 1] = item end
  end
  if #kept == 0 then
    exit(2, string.format("--%s: %s, expected one of at most %d with --quick", name, table.concat(list, ","), most))
  end
  return kept
end
