-- middle(list): sorts the list, and returns its median; of an even number the lower of the two in the middle, which is
-- a value that was measured.
return function(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end
