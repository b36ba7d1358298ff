-- Who gets what next: up to N executions of a lane for one worker, by priority and age, over the queues it can serve.
-- @uses admission answered batch candidates capability claim index keyed lanes record reply taking turns writes
local M = {}

-- What cannot be claimed stands in nobody's way: after a first look for what is missing, further looks see more.
local MAX_PASSES, FURTHER = 4, 50

local ENTRY = batch.shape(1, {"uuid", "lease_id", "attempt_id"})
local REQUEST = batch.shape(1, {
  "lane_id", "worker_id", "worker_instance_id", "capabilities", "lease_ttl_ms", "attempt_timeout_ms",
}, {lease_ttl_ms = true, attempt_timeout_ms = true})

-- Why this very execution cannot be claimed, as a refusal; nil when it can.
local function obstacle(x, now, request, started)
  local refusal = claim.check_found(x, now)
  if refusal then return refusal end
  if not index.is_queued(x) then return reply.refuse("execution_not_in_eligible_set", record.public_state(x)) end
  local code, detail = capability.check(x.required_capabilities, request.capabilities)
  if code then return reply.refuse(code, detail) end
  return admission.check_limits(x, started[x.lane_id])
end

-- Claim these very executions; one envelope each. Entries: {uuid, lease_id, attempt_id}.
function M.claim_named(tag, request, entries, now)
  local payloads, started = taking.payloads(), {}
  local outcomes = batch.each(entries, function(entry, collected)
    local wrong = batch.check(entry, ENTRY)
    if wrong then return wrong end
    local x = batch.load(tag, entry[1], collected)
    local kind = answered.kind(x, entry[2], entry[3])
    if kind then return taking.answer(x, kind, payloads) end
    local refusal = obstacle(x, now, request, started)
    if refusal then return refusal end
    if x.writes then started[x.lane_id] = (started[x.lane_id] or 0) + 1 end
    return taking.take(x, now, request, entry[2], entry[3], payloads)
  end)
  taking.add_payloads(payloads)
  return outcomes
end

-- What the call was given before, when it comes again.
local function answer_again(earlier)
  local taken, payloads = {}, taking.payloads()
  for i, each in ipairs(earlier) do taken[i] = taking.answer(each[1], each[2], payloads) end
  taking.add_payloads(payloads)
  return taken
end

-- Take what can be taken of those found, up to `wanted` in all. One of a full key is set aside, so that it is met once.
-- Answers how many have left their queue already; the others leave it when the batch is written.
local function take_found(lane, found, now, request, ids, wanted, taken, payloads)
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
        local pair = ids[count]
        taken[count] = taking.take(x, now, request, pair[1], pair[2], payloads)
      end
    end
  end
  return gone
end

-- Claim the best of a lane. ids: a {lease_id, attempt_id} for each that may be claimed.
function M.claim_next(tag, request, ids, now)
  local earlier = answered.earlier(tag, request.worker_instance_id, ids)
  if earlier then return answer_again(earlier) end
  local taken, collected, payloads = {}, writes.collector(), taking.payloads()
  local lane = {tag = tag, lane_id = request.lane_id, writes = collected}
  if admission.lane_obstacle(lane, true) then return taken end
  local wanted = math.min(#ids, lanes.free(lane) or #ids)
  local keys, skip = candidates.queues(lane, request.capabilities), 0
  for pass = 1, MAX_PASSES do
    if #taken >= wanted then break end
    local missing = wanted - #taken
    local next_ids = candidates.heads(keys, skip, pass == 1 and missing or math.max(missing, FURTHER))
    if #next_ids == 0 then break end
    skip = skip + #next_ids - take_found(lane, next_ids, now, request, ids, wanted, taken, payloads)
  end
  writes.flush(collected)
  if #taken > 0 then answered.remember(tag, ids) end
  taking.add_payloads(payloads)
  return taken
end

-- What a claim request must hold; a refusal or nil.
function M.check_request(request)
  local members = {}
  for i, name in ipairs(REQUEST.names) do members[i] = request[name] end
  local wrong = batch.check(members, REQUEST)
  if wrong then return wrong end
  if request.lease_ttl_ms < 1 then
    return reply.invalid("lease_ttl_ms", "a whole number from 1", request.lease_ttl_ms)
  end
  if request.worker_id == "" or request.worker_instance_id == "" or request.lane_id == "" then
    return reply.invalid("worker_id, worker_instance_id, lane_id", "text that is not empty", "")
  end
end

return M
