-- The end of a suspension: it closes its conditions and all its waitpoints, whatever ended it (D1).
local M = {}

local function close_waitpoint(x, id, reason, now)
  local waitpoint = "ff:wp:" .. x.tag .. ":" .. id
  if redis.call("EXISTS", waitpoint) == 1 then
    redis.call("HSET", waitpoint, "state", "closed", "closed_at", now, "close_reason", reason)
  end
  local condition = waitpoint .. ":condition"
  if redis.call("EXISTS", condition) == 1 then
    redis.call("HSET", condition, "closed", "1", "closed_at", now, "closed_reason", reason)
  end
end

local function additional(json)
  if not json or json == "" then return {} end
  local ok, list = pcall(cjson.decode, json)
  return ok and type(list) == "table" and list or {}
end

function M.close(x, reason, now)
  local key = x.base .. ":suspension:current"
  local open = redis.call("HMGET", key, "waitpoint_id", "additional_waitpoints_json", "suspension_id")
  if not open[3] then return end
  redis.call("HSET", key, "closed_at", now, "close_reason", reason)
  redis.call("DEL", key .. ":satisfied_set", key .. ":satisfied_set:signals", key .. ":member_map")
  if open[1] and open[1] ~= "" then close_waitpoint(x, open[1], reason, now) end
  for _, binding in ipairs(additional(open[2])) do
    if type(binding) == "table" and type(binding.waitpoint_id) == "string" then
      close_waitpoint(x, binding.waitpoint_id, reason, now)
    end
  end
end

return M
