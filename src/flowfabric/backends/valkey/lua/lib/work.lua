-- Who gets what next: up to N executions of a lane for one worker, by priority and age, over the queues it can serve.
-- @uses admission answered batch candidates capability claim index keyed lanes record reply taking turns writes
local M = {}

-- What cannot be claimed stands in nobody's way: after a first look for what is missing, further looks see more.
local MAX_PASSES, FURTHER = 4, 50

-- Why this very execution cannot be claimed, as a refusal; nil when it can.
local function obstacle(x, now, request, started)
  local refusal = claim.check_found(x, now)
  if refusal then return refusal end
  if not index.is_queued(x) then return reply.refuse("execution_not_in_eligible_set", record.public_state(x)) end
  local code, detail = capability.check(x.required_capabilities, request.capabilities)
  if code then return reply.refuse(code, detail) end
  return admission.check_limits(x, started[x.lane_id])
end

-- Claim these very executions, given by their uuids; a row or a refusal each.
function M.claim_named(tag, request, now)
  local payloads, started = taking.payloads(), {}
  local outcomes = batch.each(request.named, function(uuid, collected, number)
    if type(uuid) ~= "string" then return reply.invalid("uuid", "text", uuid) end
    local x = batch.load(tag, uuid, collected)
    local kind = answered.kind(x, request, number)
    if kind then return taking.answer(x, kind, number, payloads) end
    local refusal = obstacle(x, now, request, started)
    if refusal then return refusal end
    if x.writes then started[x.lane_id] = (started[x.lane_id] or 0) + 1 end
    return taking.take(x, now, request, number, payloads)
  end)
  taking.add_payloads(payloads)
  return outcomes, payloads.earliest
end

-- What the call was given before, when it comes again.
local function answer_again(earlier)
  local taken, payloads = {}, taking.payloads()
  for i, each in ipairs(earlier) do taken[i] = taking.answer(each[1], each[2], each[3], payloads) end
  taking.add_payloads(payloads)
  return taken, payloads.earliest
end

-- Take what can be taken of those found, up to `wanted` in all. One of a full key is set aside, so that it is met once.
-- Answers how many have left their queue already; the others leave it when the batch is written.
local function take_found(lane, found, now, request, wanted, taken, payloads)
  local gone, count = 0, #taken
  for i = 1, #found do
    if count == wanted then break end
    local x = record.fill(batch.at_id(lane.tag, found[i], lane.writes))
    if x and not claim.check_found(x, now) then
      if x.concurrency_key then gone = gone + 1 end
      if x.concurrency_key and keyed.is_full(x) then
        turns.hold(x, now)
      else
        count = count + 1
        taken[count] = taking.take(x, now, request, count, payloads)
      end
    end
  end
  return gone
end

-- Claim the best of a lane, up to `count`. Answers their rows and when the first of their leases runs out.
function M.claim_next(tag, request, now)
  local earlier = answered.earlier(tag, request)
  if earlier then return answer_again(earlier) end
  local taken, collected, payloads = {}, writes.collector(), taking.payloads()
  local lane = {tag = tag, lane_id = request.lane_id, writes = collected}
  if admission.lane_obstacle(lane, true) then return taken end
  local wanted = math.min(request.count, lanes.free(lane) or request.count)
  local keys, skip = candidates.queues(lane, request.capabilities), 0
  for pass = 1, MAX_PASSES do
    if #taken >= wanted then break end
    local missing = wanted - #taken
    local next_ids = candidates.heads(keys, skip, pass == 1 and missing or math.max(missing, FURTHER))
    if #next_ids == 0 then break end
    skip = skip + #next_ids - take_found(lane, next_ids, now, request, wanted, taken, payloads)
  end
  writes.flush(collected)
  if #taken > 0 then answered.remember(tag, request) end
  taking.add_payloads(payloads)
  return taken, payloads.earliest
end

return M
