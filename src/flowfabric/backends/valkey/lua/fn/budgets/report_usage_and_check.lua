--- Count usage on a budget if all of it fits; otherwise count nothing and note the breach.
-- @keys    ~usage ~limits budget
-- @args    dimension_count:nat *report
-- @reply   dimension current_usage limit on_hard_limit/is_crossing
-- @errors  invalid_input budget_not_found corruption
-- @events  budget_soft_breached budget_hard_breached
-- @repeat  safe
-- @uses    amounts args budget clock reservation spending
local function read(A)
  local n = A.dimension_count
  local wrong = amounts.check_count("dimension_count", n)
  if wrong then return nil, wrong end
  local list, refusal = amounts.parallel(A.report, n, "deltas")
  if refusal then return nil, refusal end
  local now, bad = args.nat("now_ms", A.report[2 * n + 1], 0)
  if bad then return nil, bad end
  return {
    list = list, now = clock.at(now), dedup = A.report[2 * n + 2] or "", execution_id = A.report[2 * n + 3] or "",
    namespace = A.report[2 * n + 4],
  }
end

return function(K, A)
  local report, refusal = read(A)
  if not report then return refusal end
  local b, unreadable = budget.load(K.budget, report.namespace)
  if not b then return unreadable end
  local wrong = spending.check_dedup(b, report.dedup) or spending.check_countable(b, report.list)
  if wrong then return wrong end

  if spending.is_repeated(report.dedup) then return {1, "ALREADY_APPLIED"} end
  if b.def.on_hard_limit == "block" and budget.is_breached(b) then
    local name = b.def.last_breach_dim
    return spending.hard_breach(b, name, budget.taken(b, name))
  end
  local full, is_breach = reservation.first_full(b, report.list)
  if full then
    if is_breach then budget.breach(b, full, report.now) end
    return spending.hard_breach(b, full, budget.taken(b, full))
  end
  local soft, _, is_crossed = spending.count(b, report.list, report.now, report.execution_id, report.dedup)
  return soft and spending.soft_breach(b, soft, is_crossed) or {1, "OK"}
end
