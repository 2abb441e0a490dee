-- one_length(make): a function of N that gives make(N), made again only where N is another than the last time: the
-- methods of a sweep take turns at each length. The inputs of two lengths are never held at once.
return function(make)
  local length, inputs
  return function(N)
    if N ~= length then
      length, inputs = nil, nil
      collectgarbage()
      length, inputs = N, make(N)
    end
    return inputs
  end
end
