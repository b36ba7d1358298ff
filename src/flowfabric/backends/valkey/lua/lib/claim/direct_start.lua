-- Members that may start because of what ended in this very call: where nobody waits before them, the worker that asks
-- in the same call takes them at once, and they never stand in a queue.
-- @uses admission claim_dedup claim_queues claim_take lanes limit_gate successors transition writes
local M = {}

-- Nothing that few have, and a flow that runs: nothing but a worker stands between it and its start.
local function fits(x, request)
  return x.lane_id == request.lane_id and not x.required_capabilities and not x.attempt_timeout_ms
    and not x.claim_grant_until and not x.next_attempt_type and x.current_lease_epoch == "0"
    and x.flow.public_flow_state == "running" and not x.flow.parent_execution_id and not limit_gate.is_limited(x)
end

-- Is there room for all of them, and nobody before them?
local function are_next(ready, request)
  if #ready > request.count or request.attempt_timeout_ms > 0 or request.recall then return false end
  for i = 1, #ready do
    if not ready[ready[i].id] or not fits(ready[i], request) then return false end
  end
  local x = ready[1]
  if admission.lane_obstacle(x, false) or lanes.free(x) then return false end
  return redis.call("EXISTS", unpack(claim_queues.queues(x, request.capabilities))) == 0
end

-- Start all of them, and answer what was taken; or let them wait, and answer nil.
function M.start(request, now, collected)
  writes.settle(collected)
  local ready, taken, payloads = collected.ready, {}, claim_take.payloads()
  if #ready == 0 then return nil end
  if #collected.permits > 0 or not are_next(ready, request) then return successors.release_all(collected, now) end
  for i = 1, #ready do
    local x = ready[i]
    transition.unblock_to_start(x, now)
    x.flow_state = "running"
    taken[i] = claim_take.take(x, now, request, i, payloads)
  end
  return {rows = taken, payloads = payloads}
end

-- Their rows, and when the first of their leases runs out. All is written by now.
function M.answer(tag, request, started)
  claim_dedup.remember(tag, request)
  claim_take.add_payloads(started.payloads)
  return started.rows, started.payloads.earliest
end

return M
