--- Refund everything that an execution has spent on a budget since its last reset.
-- @keys    usage ~ledger ~ledgers
-- @args    budget_id:id execution_id:id
-- @reply   status
-- @errors  invalid_input budget_not_found corruption
-- @events  budget_hard_breached
-- @repeat  safe
-- @uses    budget clock reply spending
return function(K, A)
  local b, refusal = budget.load((K.usage:gsub(":usage$", "")))
  if not b then return refusal end
  if b.id ~= A.budget_id then return reply.invalid("budget_id", "the one in the key", A.budget_id) end

  return reply.ok(spending.give_back(b, A.execution_id, clock.now_ms()) and "released" or "noop")
end
