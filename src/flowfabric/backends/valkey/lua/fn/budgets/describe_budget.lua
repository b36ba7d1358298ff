--- Read a budget: definition, limits, usage and holds; with an execution, also its spend.
-- @keys    budget
-- @args    execution_id=
-- @reply   definition limits usage reserved ledger
-- @errors  invalid_input budget_not_found corruption
-- @flags   no-writes
-- @repeat  safe
-- @uses    budget spending
return function(K, A)
  local b, refusal = budget.load(K.budget)
  if not b then return refusal end

  local ledger = {}
  if A.execution_id ~= "" then
    for name, spent in pairs(spending.ledger(b, A.execution_id)) do
      ledger[#ledger + 1], ledger[#ledger + 2] = name, spent
    end
  end
  local function all(key) return redis.call("HGETALL", key) end
  return {1, "OK", all(b.key), all(b.limits), all(b.usage), all(b.reserved), ledger}
end
