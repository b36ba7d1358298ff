-- Names in keys. Colons separate the parts of a key, so a name is escaped where another part
-- follows: no two names make the same key. Ordinary names need no escapes;
-- backends/valkey/library/keys.py does the same.
local M = {}

local SPECIAL = "[%%:=]"
local WRITTEN = {["%"] = "%25", [":"] = "%3A", ["="] = "%3D"}
local MEANT = {["%25"] = "%", ["%3A"] = ":", ["%3D"] = "="}

function M.part(name)
  if not name:find(SPECIAL) then return name end
  return (name:gsub(SPECIAL, WRITTEN))
end

-- The name with this escaped form; nil when there is none.
function M.read(part)
  local name = part:gsub("%%..", MEANT)
  return M.part(name) == part and name or nil
end

return M
