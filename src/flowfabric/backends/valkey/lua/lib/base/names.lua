-- Names in keys. Colons part a key, so a name from outside is written without any where something follows it: then no
-- two names make one key. Ordinary names are written as they are; backends/valkey/keys.py does the same.
local M = {}

local SPECIAL = "[%%:=]"
local WRITTEN = {["%"] = "%25", [":"] = "%3A", ["="] = "%3D"}
local MEANT = {["%25"] = "%", ["%3A"] = ":", ["%3D"] = "="}

function M.part(name)
  if not name:find(SPECIAL) then return name end
  return (name:gsub(SPECIAL, WRITTEN))
end

-- The name that is written so; nil when none is.
function M.read(part)
  local name = part:gsub("%%..", MEANT)
  return M.part(name) == part and name or nil
end

return M
