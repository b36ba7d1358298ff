--- Start a new period of a budget: usage is zero and any breach ends.
-- @keys    budget ~usage ~budget_resets
-- @args    budget_id:id now_ms:nat
-- @reply   next_reset_at
-- @errors  invalid_input budget_not_found corruption
-- @repeat  unsafe
-- @uses    budget clock digits period reply
return function(K, A)
  local now = clock.at(A.now_ms)
  local b, refusal = budget.load(K.budget)
  if not b then return refusal end
  if b.id ~= A.budget_id then return reply.invalid("budget_id", "the one in the key", A.budget_id) end

  local interval = period.interval(b)
  return reply.ok(digits.of(period.begin(b, now, interval > 0 and now + interval or nil)))
end
