--- End, renew and claim in one step: completions and failures, lease renewals, then the next work of a lane.
-- @keys    partition
-- @args    finish:id renew:id claim= *payloads
-- @reply   finished renewed claims lease_expires_at parked offers handed_over
-- @errors  invalid_input
-- @events  completed retry_scheduled failed claimed resumed blocked unblocked cancelled skipped flow_completed
--          flow_failed flow_cancelled
-- @repeat  safe
-- @uses    batch claim_request clock direct_start endings flow_work handover lease_ops notify parked_claims
--          parked_handoff reply writes
local RENEW = batch.shape(1, {"uuid", "attempt_index", "attempt_id", "lease_id", "lease_epoch", "lease_ttl_ms"},
  {lease_ttl_ms = true})

local function renew_one(tag, item, collected, now)
  local wrong = batch.check(item, RENEW)
  if wrong then return wrong end
  if item[6] < 1 then return reply.invalid("lease_ttl_ms", "a whole number from 1", item[6]) end
  return lease_ops.renew(batch.load(tag, item[1], collected), {
    attempt_index = item[2], attempt_id = item[3], lease_id = item[4], lease_epoch = item[5], lease_ttl_ms = item[6],
  }, now)
end

return function(K, A)
  local now, tag = clock.now_ms(), batch.tag(K.partition)
  local finish, bad_finish = batch.decode("finish", A.finish, endings.MEMBERS)
  local renew, bad_renew = batch.decode("renew", A.renew)
  local request, bad_request
  if A.claim ~= "" then request, bad_request = batch.decode("claim", A.claim) end
  local refusal = bad_finish or bad_renew or bad_request or (request and claim_request.check(request))
  if refusal then return refusal end

  local finished, collected = endings.run(tag, finish, A.payloads, now, request ~= nil)
  local started = request and direct_start.start(request, now, collected)
  writes.flush(collected)
  local renewed = batch.each(renew, function(item, own) return renew_one(tag, item, own, now) end)
  local claims, expires_at, is_parked, offers = {}, "", "", {}
  if started then
    claims, expires_at = direct_start.answer(tag, request, started)
  elseif request then
    flow_work.run_some(tag, now)
    claims, expires_at, is_parked, offers = parked_claims.claim(tag, request, now, collected)
  end
  parked_handoff.offer_all(tag, collected, now)
  if #collected.permits > 0 then parked_handoff.pass_on(tag, collected, now) end
  handover.give_back(tag, now, collected)
  notify.of_room(collected)

  return {1, "OK", finished, renewed, claims, expires_at, is_parked, offers, collected.handed_over or ""}
end
