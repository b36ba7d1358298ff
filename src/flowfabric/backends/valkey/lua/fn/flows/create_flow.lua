--- Create a flow without members: absent -> open. The same id again is the same flow.
-- @keys    flow_core ~members ~flow_index
-- @args    flow_id:id flow_kind namespace now_ms= failure_policy=continue
-- @reply   flow_id
-- @errors  invalid_input
-- @repeat  safe
-- @uses    clock flow flow_making reply tenant
return function(K, A)
  local f, refusal = flow.of_key(K.flow_core, A.flow_id)
  if refusal then return refusal end
  refusal = flow_making.check_policy(A.failure_policy)
  if refusal then return refusal end
  refusal = tenant.check_own(A.namespace)
  if refusal then return refusal end
  if flow.fill(f) then return flow.check_taken(f) or reply.satisfied(f.id) end

  flow_making.create(f, clock.now_ms(), A)

  return reply.ok(f.id)
end
