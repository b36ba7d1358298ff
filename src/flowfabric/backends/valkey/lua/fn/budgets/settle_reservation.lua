--- End a reservation with the actual spend, which is counted once; 0 returns all of it. Or note the spend so far.
-- @keys    budget
-- @args    execution_id:id reservation_id:id pair_count:nat *amounts
-- @reply   dimension current_usage limit on_hard_limit/is_crossing
-- @errors  invalid_input budget_not_found corruption
-- @events  budget_soft_breached budget_hard_breached
-- @repeat  safe
-- @uses    amounts budget clock reservation spending
return function(K, A)
  local wrong = A.pair_count > 0 and amounts.check_count("pair_count", A.pair_count)
  if wrong then return wrong end
  local list, bad = amounts.pairs(A.amounts, A.pair_count, "amounts")
  if bad then return bad end
  local b, refusal = budget.load(K.budget, A.amounts[2 * A.pair_count + 1])
  if not b then return refusal end
  local settled = reservation.settled(b, A.reservation_id)
  local crashed = settled and settled ~= true and settled or {}
  for _, each in ipairs(list) do each.amount = math.max(0, each.amount - (crashed[each.name] or 0)) end
  wrong = spending.check_countable(b, list)
  if wrong then return wrong end

  if settled == true then return {1, "ALREADY_APPLIED"} end
  if A.amounts[2 * A.pair_count + 2] == "so_far" then
    reservation.note(b, A.execution_id, A.reservation_id, list)
    return {1, "OK"}
  end
  reservation.drop(b, A.execution_id, A.reservation_id)
  local key = reservation.settled_key(b, A.reservation_id)
  return spending.record(b, list, clock.now_ms(), A.execution_id, key)
end
