-- Take executions that wait for a limit with the permits that this call has freed.
-- @uses admission batch capability claim_take limit_queue limit_scopes offering record task_routes
local M = {}

-- How many waiting executions are tried for one permit: some may need other capabilities.
local LOOKS = 10

-- Its only limit is that of the permit, and nothing else blocks it.
local function limits_of(x, free, request)
  if not x or x.waits_for ~= free.limit or x.lifecycle_phase ~= "runnable" or x.concurrency_key then return nil end
  if x.lane_id ~= request.lane_id or not task_routes.knows(request, x.execution_kind) then return nil end
  if capability.check(x.required_capabilities, request.capabilities, request.kinds) then return nil end
  if admission.obstacle(x, x.attempt_state == "attempt_interrupted") then return nil end
  local limits = limit_scopes.of(x)
  if limits and #limits.quotas == 1 and #limits.budgets == 0 then return limits end
end

local function next_for(turn, free)
  for _, id in ipairs(redis.call("ZRANGE", limit_queue.key(turn.lane.tag, free.limit), 0, LOOKS - 1)) do
    local x = record.found(batch.at_id(turn.lane.tag, id, turn.lane.writes))
    local limits = limits_of(x, free, turn.request)
    if limits then return x, limits end
  end
end

-- Take as many as the worker has slots for, best first; unused permits stay in the list.
function M.take(turn, permits)
  local left = {}
  for _, free in ipairs(permits) do
    local x, limits
    if turn.count < turn.wanted then x, limits = next_for(turn, free) end
    if x then
      offering.inherit(x, limits, turn.request.worker_instance_id, free, turn.now)
      local number = turn.count + 1
      turn.taken[number] = claim_take.take(x, turn.now, turn.request, number, turn.payloads)
      turn.count, turn.seen = number, turn.seen + 1
    else
      left[#left + 1] = free
    end
  end
  for i = 1, math.max(#permits, #left) do permits[i] = left[i] end
end

return M
