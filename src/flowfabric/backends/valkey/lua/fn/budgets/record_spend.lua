--- Record actual spend on a budget and on the ledger of its execution; answer which limit it crossed.
-- @keys    ~usage ~limits budget ~ledger ~ledgers
-- @args    pair_count:nat *spend
-- @reply   dimension current_usage limit on_hard_limit/is_crossing
-- @errors  invalid_input budget_not_found corruption
-- @events  budget_soft_breached budget_hard_breached
-- @repeat  safe
-- @uses    amounts args budget clock spending
return function(K, A)
  local n = A.pair_count
  local wrong = amounts.check_count("pair_count", n)
  if wrong then return wrong end
  local list, refusal = amounts.pairs(A.spend, n, "deltas")
  if refusal then return refusal end
  local now, bad = args.nat("now_ms", A.spend[2 * n + 1], 0)
  if bad then return bad end
  local b, unreadable = budget.load(K.budget, A.spend[2 * n + 4])
  if not b then return unreadable end
  local dedup, execution_id = A.spend[2 * n + 2] or "", A.spend[2 * n + 3] or ""
  wrong = spending.check_dedup(b, dedup) or spending.check_countable(b, list)
  if wrong then return wrong end

  if spending.is_repeated(dedup) then return {1, "ALREADY_APPLIED"} end
  return spending.record(b, list, clock.at(now), execution_id, dedup)
end
