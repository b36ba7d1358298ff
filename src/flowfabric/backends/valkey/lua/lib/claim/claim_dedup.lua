-- Repeated claims: a claim whose reply was lost gets the same executions again, and no more (G3).
-- @uses batch call_ids index_key
local M = {}

local REMEMBERED_MS = 60000

-- The caller chooses new ids for each call, so the prefix of its lease ids identifies the call.
local function marker(tag, request) return "ff:claim:" .. tag .. ":" .. request.lease_ids end

-- Did this call come before, and did it get executions or park?
function M.came_before(tag, request) return request.count > 0 and redis.call("EXISTS", marker(tag, request)) == 1 end

function M.remember(tag, request) redis.call("SET", marker(tag, request), "", "PX", REMEMBERED_MS) end

function M.forget(tag, request) redis.call("UNLINK", marker(tag, request)) end

-- The kind of attempt if the execution runs under the lease of this call; otherwise nil.
function M.kind(x, request, number)
  if not x or x.lifecycle_phase ~= "active" or x.ownership_state ~= "leased" then return nil end
  local lease_id, attempt_id = call_ids.of(request, number)
  if x.current_lease_id ~= lease_id then return nil end
  return x.current_attempt_id == attempt_id and (x.current_attempt_type or "initial") or "resumed"
end

-- The executions that the call got before: {execution, kind, number} in the order of its ids.
function M.earlier(tag, request)
  local held, found = {}, {}
  local leases = index_key.worker_leases({tag = tag, current_worker_instance_id = request.worker_instance_id})
  for _, id in ipairs(redis.call("SMEMBERS", leases)) do
    local x = batch.load(tag, id:sub(#tag + 2))
    if x then held[x.current_lease_id or ""] = x end
  end
  for number = 1, request.count do
    local x = held[(call_ids.of(request, number))]
    local kind = M.kind(x, request, number)
    if kind then found[#found + 1] = {x, kind, number} end
  end
  return found
end

return M
