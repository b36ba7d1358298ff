--- Note that the lease holder is about to reserve on a budget, so that open holds return with the lease.
-- @keys    core
-- @args    execution_id:id lease_id lease_epoch attempt_id budget_id:id
-- @reply   lease_epoch namespace
-- @errors  invalid_input execution_not_found fence_required partial_fence_triple execution_not_active lease_revoked
--          lease_expired stale_lease
-- @repeat  safe
-- @uses    clock lease record reply tenant update
local MOST = 64

return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not A.budget_id:find("^[%w-]+$") then return reply.invalid("budget_id", "an id", A.budget_id) end
  if not x then return reply.refuse("execution_not_found") end
  local refusal = lease.check(x, A, "", now)
  if refusal then return refusal end
  local known, count = x.reserved_budgets or "", 0
  for _ in known:gmatch("[^,]+") do count = count + 1 end
  if ("," .. known .. ","):find("," .. A.budget_id .. ",", 1, true) then
    return reply.ok(x.current_lease_epoch, tenant.name(x.namespace))
  end
  if count >= MOST then return reply.invalid("budget_id", "at most " .. MOST .. " of one lease", A.budget_id) end

  update.write(x, now, {"reserved_budgets", known == "" and A.budget_id or known .. "," .. A.budget_id})
  return reply.ok(x.current_lease_epoch, tenant.name(x.namespace))
end
