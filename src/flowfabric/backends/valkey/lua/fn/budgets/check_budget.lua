--- Check whether executions may start on a budget now; a partition that has to wait is noted.
-- @keys    budget
-- @args    waiting_tag=
-- @reply   is_open dimension taken limit next_reset_at waiting namespace
-- @errors  invalid_input budget_not_found corruption
-- @repeat  safe
-- @uses    budget digits limit_subscribers reply tenant
return function(K, A)
  local b, refusal = budget.load(K.budget)
  if not b then return refusal end

  local name, taken, limit = budget.obstacle(b)
  if name and A.waiting_tag ~= "" then limit_subscribers.note(b.waiting, A.waiting_tag) end

  local next_at = budget.next_reset_at(b)
  local answer = reply.ok(name and "0" or "1", name or "", digits.of(taken or 0), digits.of(limit or 0),
    next_at and digits.of(next_at) or "")
  answer[#answer + 1] = limit_subscribers.list(b.waiting)
  answer[#answer + 1] = tenant.owner(b.def) or ""
  return answer
end
