-- Who gets what next: up to N executions of a lane for one worker, by priority and age, over the queues it can serve.
-- @uses admission answered attempt batch candidates capability grant index record reply writes
local M = {}

local MAX_PASSES = 4

-- Where the payload stands in the reply of a claim.
local PAYLOAD = 11

-- What a worker needs to run it, with the lease; its payload comes when all are known.
local function answer(x, kind, payloads)
  local out = {
    1, "OK", x.id, x.current_lease_id, x.current_lease_epoch, x.lease_expires_at, x.current_attempt_id,
    x.current_attempt_index, kind, x.execution_kind or "", "", x.payload_encoding or "",
  }
  local n = #payloads.keys + 1
  payloads.keys[n], payloads.claims[n] = x.base .. ":payload", out
  return out
end

-- Start or resume.
local function take(x, now, owner, payloads)
  local kind = "resumed"
  if x.attempt_state == "attempt_interrupted" then
    attempt.resume(x, now, owner)
  else
    kind = attempt.next_kind(x)
    attempt.start(x, now, owner, kind)
  end
  return answer(x, kind, payloads)
end

-- The payloads of all that were taken, with one read.
local function add_payloads(payloads)
  if #payloads.keys == 0 then return end
  local found = redis.call("MGET", unpack(payloads.keys))
  for i = 1, #found do payloads.claims[i][PAYLOAD] = found[i] or "" end
end

-- Names of the executions to look at, and what is known of all of them at once.
local function look_at(tag, uuids, collected)
  local found, bases = {}, {}
  for i = 1, #uuids do
    found[i] = batch.at(tag, uuids[i], collected)
    bases[i] = found[i].base
  end
  grant.look_ahead(collected, bases)
  return found
end

local ENTRY = {{1, "uuid"}, {2, "lease_id"}, {3, "attempt_id"}}
local REQUEST = {
  {"lane_id", "lane_id"}, {"worker_id", "worker_id"}, {"worker_instance_id", "worker_instance_id"},
  {"capabilities", "capabilities"}, {"lease_ttl_ms", "lease_ttl_ms", true},
  {"attempt_timeout_ms", "attempt_timeout_ms", true},
}

-- Why it cannot be claimed, as a refusal; nil when it can.
local function obstacle(x, now, lane_is_open)
  if not x then return reply.refuse("execution_not_found") end
  if x.lifecycle_phase ~= "runnable" then return reply.refuse("execution_not_eligible", record.public_state(x)) end
  if x.eligibility_state ~= "eligible_now" then
    return reply.refuse("execution_not_in_eligible_set", record.public_state(x))
  end
  if grant.is_out(x, now) then return reply.refuse("grant_already_exists") end
  local why = not lane_is_open and admission.lane_obstacle(x, x.attempt_state == "attempt_interrupted")
    or admission.flow_obstacle(x)
  if why then return reply.refuse("execution_not_eligible", why) end
end

local function owner_for(request, ids)
  return {
    worker_id = request.worker_id, worker_instance_id = request.worker_instance_id, lease_ttl_ms = request.lease_ttl_ms,
    attempt_timeout_ms = request.attempt_timeout_ms, lease_id = ids[1], attempt_id = ids[2],
  }
end

-- Claim these very executions; one envelope each. Entries: {uuid, lease_id, attempt_id}.
function M.claim_named(tag, request, entries, now)
  local payloads = {keys = {}, claims = {}}
  local outcomes = batch.each(entries, function(entry, collected)
    local wrong = batch.check(entry, ENTRY)
    if wrong then return wrong end
    local x = batch.load(tag, entry[1], collected)
    local kind = answered.kind(x, entry[2], entry[3])
    if kind then return answer(x, kind, payloads) end
    local refusal = obstacle(x, now)
    if refusal then return refusal end
    if not index.is_queued(x) then return reply.refuse("execution_not_in_eligible_set", record.public_state(x)) end
    local code, detail = capability.check(x.required_capabilities, request.capabilities)
    if code then return reply.refuse(code, detail) end
    return take(x, now, owner_for(request, {entry[2], entry[3]}), payloads)
  end)
  add_payloads(payloads)
  return outcomes
end

local function uuids_of(ids, tag)
  local out, from = {}, #tag + 2
  for i = 1, #ids do out[i] = ids[i]:sub(from) end
  return out
end

-- Claim the best of a lane. ids: a {lease_id, attempt_id} for each that may be claimed.
function M.claim_next(tag, request, ids, now)
  local lane = {tag = tag, lane_id = request.lane_id}
  local taken, collected, payloads = {}, writes.collector(), {keys = {}, claims = {}}
  local earlier = answered.earlier(tag, request.worker_instance_id, ids)
  if earlier then
    for i, each in ipairs(earlier) do taken[i] = answer(each[1], each[2], payloads) end
    add_payloads(payloads)
    return taken
  end
  if admission.lane_obstacle(lane, true) then return taken end
  local lane_is_open = not admission.lane_obstacle(lane, false)
  local keys, skip = candidates.queues(lane, request.capabilities), 0
  for _ = 1, MAX_PASSES do
    local next_ids = candidates.heads(keys, skip, #ids - #taken)
    for _, at in ipairs(look_at(tag, uuids_of(next_ids, tag), collected)) do
      local x = record.fill(at)
      if not obstacle(x, now, lane_is_open) then
        taken[#taken + 1] = take(x, now, owner_for(request, ids[#taken + 1]), payloads)
      end
    end
    skip = skip + #next_ids
    if #taken >= #ids or #next_ids == 0 then break end
  end
  writes.flush(collected)
  if #taken > 0 then answered.remember(tag, ids) end
  add_payloads(payloads)
  return taken
end

-- What a claim request must hold; a refusal or nil.
function M.check_request(request)
  local wrong = batch.check(request, REQUEST)
  if wrong then return wrong end
  if request.lease_ttl_ms < 1 then
    return reply.invalid("lease_ttl_ms", "a whole number from 1", request.lease_ttl_ms)
  end
  if request.worker_id == "" or request.worker_instance_id == "" or request.lane_id == "" then
    return reply.invalid("worker_id, worker_instance_id, lane_id", "text that is not empty", "")
  end
end

return M
