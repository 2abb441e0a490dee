-- Values that are seen as the table that their method `table` makes.
local causeway = ...

--- Gives the class a method that shows the value in the middle of a script: `p:show()`.
function causeway._can_show(class)
  function class:show() causeway.display(self) end
end

--- Gives the class `markdown`, `latex`, `save`, `__tostring` and `__rich` of class:table(); with `shown`, the options
--- of that table where the value is shown.
function causeway._as_table(class, shown)
  -- What the table takes, these take; where that is nothing, what is given is not dropped in silence.
  for _, format in ipairs({ "markdown", "latex" }) do
    class[format] = function(self, ...)
      if select("#", ...) > 0 and debug.getinfo(self.table, "u").nparams < 2 then
        causeway._raise(format .. ": got an argument, expected none: text_table makes a table of any rows and title")
      end
      local seen = self:table(...)
      return seen[format](seen)
    end
  end
  function class:save(path)
    self:table():save(path)
    causeway._saved(self, path)
    return self
  end
  causeway._can_show(class)
  function class.__tostring(self) return self:table(shown):text() end
  function class.__rich(self)
    local seen = self:table(shown)
    return getmetatable(seen).__rich(seen)
  end
end
