--- Do work of a flow from the work list, within the budget.
-- @keys    flow_core
-- @args    flow_id:id limit:pos=256
-- @reply   done left
-- @errors  invalid_input flow_not_found
-- @events  unblocked skipped cancelled blocked completed failed claimed resumed flow_completed flow_failed
--          flow_cancelled
-- @repeat  safe
-- @uses    clock flow flow_work reply
local MAX_LIMIT = 1000

return function(K, A)
  local f, refusal = flow.find(K.flow_core, A.flow_id)
  if refusal then return refusal end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end

  local now = clock.now_ms()
  local done = flow_work.run(f.tag, now, A.limit, f.id)

  return reply.ok(done, flow_work.is_left(f.tag, f.id, now) and 1 or 0)
end
