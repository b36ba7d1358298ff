-- Claims of named executions, instead of the best of a lane.
-- @uses admission batch capability claim claim_dedup claim_take index limit_scopes offering permit record reply
--       wakeup
local M = {}

-- A refusal when this execution cannot be claimed; otherwise nil.
local function obstacle(x, now, request, started, uuid)
  if x and request.admitted then
    local ticket = request.tickets and request.tickets[uuid]
    x.is_admitted = offering.is_for(x, request.worker_instance_id, now, ticket)
    if not x.is_admitted then return reply.refuse("claim_grant_expired") end
  end
  local refusal = claim.check_found(x, now)
  if refusal then return refusal end
  if not index.is_queued(x) then return reply.refuse("execution_not_in_eligible_set", record.public_state(x)) end
  local code, detail = capability.check(x.required_capabilities, request.capabilities, request.kinds)
  if code then return reply.refuse(code, detail) end
  return admission.check_limits(x, started[x.lane_id])
end

-- Note in the record that the slot may pass on, and for which limit.
local function take_permit(x, request, uuid, now)
  local limit = request.permits and request.permits[uuid]
  if limit then permit.give(x, {since = now, ticket = offering.read(x).ticket, owner = x.id, limit = limit}) end
end

-- Claim the executions with these uuids. Answers a row or a refusal for each, the first lease
-- expiry, and the offers of executions whose limits must be checked first.
function M.claim(tag, request, now)
  local payloads, started, offers = claim_take.payloads(), {}, {}
  local outcomes = batch.each(request.named, function(uuid, collected, number)
    if type(uuid) ~= "string" then return reply.invalid("uuid", "text", uuid) end
    local x = batch.load(tag, uuid, collected)
    local kind = claim_dedup.kind(x, request, number)
    if kind then return claim_take.answer(x, kind, number, payloads) end
    local refusal = obstacle(x, now, request, started, uuid)
    if refusal then return refusal end
    local limits = not x.is_admitted and limit_scopes.of(x)
    if limits then
      offers[#offers + 1] = offering.make(x, limits, request.worker_instance_id, now)
      return reply.refuse("execution_not_eligible", "admission_required")
    end
    if request.only_offer then return reply.refuse("execution_not_eligible", "not_limited") end
    if x.is_admitted then take_permit(x, request, uuid, now) end
    if x.writes then started[x.lane_id] = (started[x.lane_id] or 0) + 1 end
    return claim_take.take(x, now, request, number, payloads)
  end)
  claim_take.add_payloads(payloads)
  -- An offered execution stays in its queue, so work that arrived meanwhile was not announced.
  if request.admitted then wakeup.announce(tag, request.lane_id) end
  return outcomes, payloads.earliest, offers
end

return M
