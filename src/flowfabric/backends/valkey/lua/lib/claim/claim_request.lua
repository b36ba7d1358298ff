-- Checks of a batch claim request.
-- @uses batch call_ids reply
local M = {}

local TEXT = {"lane_id", "worker_id", "worker_instance_id", "capabilities"}
local NUMBERS = {"lease_ttl_ms", "attempt_timeout_ms"}

local function check_members(request)
  for _, name in ipairs(TEXT) do
    if type(request[name]) ~= "string" then return reply.invalid(name, "text", request[name]) end
    if request[name] == "" and name ~= "capabilities" then return reply.invalid(name, "text that is not empty", "") end
  end
  if request.kinds ~= nil and type(request.kinds) ~= "string" then
    return reply.invalid("kinds", "text", request.kinds)
  end
  for _, name in ipairs(NUMBERS) do
    local wrong = batch.check_number(name, request[name])
    if wrong then return wrong end
  end
end

local function check_what(request)
  if request.named == nil then
    return batch.check_count("count", request.count) or request.park and batch.check_count("park", request.park) or nil
  end
  if type(request.named) ~= "table" then return reply.invalid("named", "a list", type(request.named)) end
  if #request.named > batch.MAX_ITEMS then
    return reply.invalid("named", "at most " .. batch.MAX_ITEMS .. " items", #request.named)
  end
end

-- A refusal or nil. named: uuids of executions; otherwise count says how many. park: how many to
-- wait for when there is no work. recall: cancels a parked claim.
function M.check(request)
  local wrong = check_members(request) or check_what(request) or call_ids.check(request)
  if wrong then return wrong end
  if request.lease_ttl_ms < 1 then
    return reply.invalid("lease_ttl_ms", "a whole number from 1", request.lease_ttl_ms)
  end
end

return M
