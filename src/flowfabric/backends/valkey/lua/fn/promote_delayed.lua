--- Make a delayed execution eligible once its time has come: delayed -> waiting. The attempt's state is kept.
-- @keys    core delayed ~eligible
-- @args    execution_id:id now_ms:nat=0
-- @reply   status
-- @errors  invalid_input
-- @events  promoted
-- @repeat  safe
-- @uses    clock index record reply transition
local function stale_entry(x)
  if not x then return "not_found_cleaned" end
  if x.lifecycle_phase ~= "runnable" then return "not_runnable_cleaned" end
  if x.eligibility_state ~= "not_eligible_until_time" then return "not_delayed_cleaned" end
end

return function(K, A)
  local now = clock.at(A.now_ms)
  local x = record.load(K.core)

  local stale = stale_entry(x)
  if stale then
    redis.call("ZREM", x and index.lane(x, "delayed") or K.delayed, record.at(K.core).id)
    return reply.ok(stale)
  end
  -- delay_until stays until the next claim: it is how a repeated fail or delay is recognised (G3).
  if tonumber(x.delay_until or 0) > now then return reply.ok("not_yet_due") end

  transition.apply(x, now, {
    event = "promoted",
    state = {lifecycle_phase = "runnable", eligibility_state = "eligible_now", blocking_reason = "waiting_for_worker"},
  })

  return reply.ok("promoted")
end
