--- Claim up to N executions of a lane in one step, the best first, or the named ones: waiting -> active.
-- @keys    partition
-- @args    request:id
-- @reply   claims
-- @errors  invalid_input
-- @events  claimed resumed blocked
-- @repeat  safe
-- @uses    batch clock work
return function(K, A)
  local now, tag = clock.now_ms(), batch.tag(K.partition)
  local request, refusal = batch.decode("request", A.request)
  refusal = refusal or work.check_request(request)
  if refusal then return refusal end

  local claims
  if request.named then
    claims = work.claim_named(tag, request, request.named, now)
  else
    claims = work.claim_next(tag, request, request.ids or {}, now)
  end

  return {1, "OK", claims}
end
