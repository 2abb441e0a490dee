-- available_memory(): bytes that the system says can be had without swapping; infinite where it does not say.
return function()
  local file = io.open("/proc/meminfo")
  local text = file and file:read("a") or ""
  if file then file:close() end
  local kib = text:match("MemAvailable:%s*(%d+)")
  return kib and tonumber(kib) * 1024 or math.huge
end
