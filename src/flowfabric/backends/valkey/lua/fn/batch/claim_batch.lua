--- Claim up to N executions of a lane in one step, best first, or the named executions: waiting -> active.
-- @keys    partition
-- @args    request:id
-- @reply   claims lease_expires_at parked offers
-- @errors  invalid_input
-- @events  claimed resumed blocked unblocked skipped cancelled completed failed flow_completed flow_failed
--          flow_cancelled
-- @repeat  safe
-- @uses    batch claim_named claim_request clock flow_work parked_claims
return function(K, A)
  local now, tag = clock.now_ms(), batch.tag(K.partition)
  local request, refusal = batch.decode("request", A.request)
  refusal = refusal or claim_request.check(request)
  if refusal then return refusal end

  if request.named then
    local claims, expires_at, offers = claim_named.claim(tag, request, now)
    return {1, "OK", claims, expires_at or "", "", offers}
  end
  if not request.recall then flow_work.run_some(tag, now) end
  return {1, "OK", parked_claims.claim(tag, request, now)}
end
