-- Claims that come again because their answer was lost: they get the same executions, not more of them (G3).
-- @uses batch index_key
local M = {}

local REMEMBERED_MS = 60000

-- Lease ids are made up by the caller for each call, so the first of them names the call.
local function marker(tag, ids) return "ff:claim:" .. tag .. ":" .. ids[1][1] end

function M.remember(tag, ids) redis.call("SET", marker(tag, ids), "", "PX", REMEMBERED_MS) end

-- Does the execution run under this very lease? Then how its claim was answered: its kind of attempt.
function M.kind(x, lease_id, attempt_id)
  if not x or x.lifecycle_phase ~= "active" or x.ownership_state ~= "leased" then return nil end
  if x.current_lease_id ~= lease_id then return nil end
  return x.current_attempt_id == attempt_id and (x.current_attempt_type or "initial") or "resumed"
end

-- What the call was given before, {execution, kind} in the order of its ids; nil when it comes for the first time.
function M.earlier(tag, worker_instance_id, ids)
  if #ids == 0 or redis.call("EXISTS", marker(tag, ids)) == 0 then return nil end
  local held = {}
  local leases = index_key.worker_leases({tag = tag, current_worker_instance_id = worker_instance_id})
  for _, id in ipairs(redis.call("SMEMBERS", leases)) do
    local x = batch.load(tag, id:sub(#tag + 2))
    if x then held[x.current_lease_id or ""] = x end
  end
  local found = {}
  for _, pair in ipairs(ids) do
    local kind = M.kind(held[pair[1]], pair[1], pair[2])
    if kind then found[#found + 1] = {held[pair[1]], kind} end
  end
  return found
end

return M
