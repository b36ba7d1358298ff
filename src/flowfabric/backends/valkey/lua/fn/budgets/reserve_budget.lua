--- Hold amounts on a budget before they are spent, for an execution under its lease: all or nothing.
-- @keys    budget
-- @args    execution_id:id reservation_id:id lease_epoch:nat pair_count:nat *amounts
-- @reply   dimension taken limit on_hard_limit
-- @errors  invalid_input budget_not_found corruption stale_lease
-- @events  budget_hard_breached
-- @repeat  safe
-- @uses    amounts budget clock digits reply reservation spending
return function(K, A)
  local wrong = amounts.check_count("pair_count", A.pair_count)
  if wrong then return wrong end
  local list, bad = amounts.pairs(A.amounts, A.pair_count, "amounts")
  if bad then return bad end
  local b, refusal = budget.load(K.budget, A.amounts[2 * A.pair_count + 1])
  if not b then return refusal end
  local on_crash = A.amounts[2 * A.pair_count + 2] or ""
  if on_crash ~= "" and on_crash ~= "return" and on_crash ~= "spend" then
    return reply.invalid("on_crash", "return or spend", on_crash)
  end
  if spending.is_repeated(reservation.settled_key(b, A.reservation_id)) then return {1, "ALREADY_APPLIED"} end
  if reservation.find(b, A.execution_id, A.reservation_id) then return reply.duplicate() end
  if reservation.is_closed(b, A.execution_id, A.lease_epoch) then return reply.refuse("stale_lease") end
  if reservation.count(b, A.execution_id) >= reservation.MOST then
    return reply.invalid("reservation_id", "at most " .. reservation.MOST .. " open at once", A.reservation_id)
  end

  local name, is_breach = reservation.first_full(b, list)
  if not name and budget.is_breached(b) and b.def.on_hard_limit == "block" then name = b.def.last_breach_dim end
  if name then
    if is_breach then budget.breach(b, name, clock.now_ms()) end
    local status = (is_breach or budget.is_breached(b)) and "HARD_BREACH" or "HELD"
    return {1, status, name, digits.of(budget.taken(b, name)), digits.of(b.hard[name] or 0), b.def.on_hard_limit or ""}
  end
  reservation.hold(b, A.execution_id, A.reservation_id, A.lease_epoch, list, on_crash == "spend" and on_crash or "")

  return reply.ok()
end
