-- Direct start: members that became ready in this call go straight to the worker that also asks for
-- work in it, if no queue is before them. They never enter a queue.
-- @uses admission claim_dedup claim_queues claim_take grant lanes limit_gate promotion task_routes writes
local M = {}

-- A plain member that starts for the first time, in a running flow. Only a worker is missing.
local function can_start(x, request, now)
  if not x.is_plain or x.lane_id ~= request.lane_id or x.current_lease_epoch ~= "0" then return false end
  if not task_routes.knows(request, x.execution_kind) then return false end
  admission.know_flow(x.writes, x.flow)
  return not admission.flow_obstacle(x) and x.flow_state == "running" and not grant.is_out(x, now)
    and not limit_gate.is_limited(x)
end

-- Does the worker have room for all of them, with no queue before them? Other members that this
-- call has promoted are in their queues once its writes are done.
local function are_next(collected, request, now)
  local ready = collected.ready
  if #ready > request.count or request.attempt_timeout_ms > 0 or request.recall then return false end
  if next(collected.wake) then return false end
  for i = 1, #ready do
    if not ready[ready[i].id] or not can_start(ready[i], request, now) then return false end
  end
  local x = ready[1]
  if admission.lane_obstacle(x, false) or lanes.free(x) then return false end
  return redis.call("EXISTS", unpack(claim_queues.queues(x, request.capabilities, request.kinds))) == 0
end

-- Start all of them and answer the claims; or queue them and answer nil.
function M.start(request, now, collected)
  writes.settle(collected)
  local ready, taken, payloads = collected.ready, {}, claim_take.payloads()
  if #ready == 0 then return nil end
  if #collected.permits > 0 or not are_next(collected, request, now) then
    return promotion.queue_all(collected, now)
  end
  for i = 1, #ready do
    local x = ready[i]
    promotion.start(x, now)
    taken[i] = claim_take.take(x, now, request, i, payloads)
  end
  return {rows = taken, payloads = payloads}
end

-- Their rows and the first lease expiry. Everything is written by now.
function M.answer(tag, request, started)
  claim_dedup.remember(tag, request)
  claim_take.add_payloads(started.payloads)
  return started.rows, started.payloads.earliest
end

return M
