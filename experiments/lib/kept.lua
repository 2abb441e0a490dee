-- kept(folder): the path of an experiment's results without its ending, "results/x/x" for "results/x", and whether an
-- earlier run has finished them: then they are made anew, otherwise the sweep goes on where it was stopped.
return function(folder)
  local file = folder .. "/" .. folder:match("[^/]+$")
  local finished = io.open(file .. ".json")
  if finished then finished:close() end
  return file, finished ~= nil
end
