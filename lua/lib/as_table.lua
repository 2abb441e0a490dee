-- Values that are seen as the table that their method `table` makes.
local causeway = ...

--- Gives the class a method that shows the value in the middle of a script: `p:show()`.
function causeway._can_show(class)
  function class:show() causeway.display(self) end
end

--- Gives the class `markdown`, `latex`, `save`, `__tostring` and `__rich` of class:table(); with `shown`, the options
--- of that table where the value is shown.
function causeway._as_table(class, shown)
  function class:markdown(...) return self:table(...):markdown() end
  function class:latex(...) return self:table(...):latex() end
  function class:save(path)
    self:table():save(path)
    return self
  end
  causeway._can_show(class)
  function class.__tostring(self) return self:table(shown):text() end
  function class.__rich(self)
    local seen = self:table(shown)
    return getmetatable(seen).__rich(seen)
  end
end
