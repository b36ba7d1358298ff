-- The fields to write to one hash. Absent and empty values are not stored. The list serves one hash
-- after the other.
local M = {}

local fields, n = {}, 0

function M.begin() n = 0 end

function M.put(name, value)
  if not value or value == "" then return end
  fields[n + 1], fields[n + 2], n = name, value, n + 2
end

-- Put the value unless it is the default of an absent field.
function M.put_unless(name, value, usual)
  if value ~= usual then M.put(name, value) end
end

function M.store(key) redis.call("HSET", key, unpack(fields, 1, n)) end

-- Copy the fields to a table.
function M.copy(to)
  for i = 1, n, 2 do to[fields[i]] = fields[i + 1] end
end

return M
