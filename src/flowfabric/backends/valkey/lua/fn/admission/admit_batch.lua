--- Let executions start within the limits of a quota, each by its ticket, in the given order.
-- @keys    quota
-- @args    items:id
-- @reply   outcomes
-- @errors  invalid_input quota_policy_not_found corruption
-- @repeat  safe
-- @uses    batch clock digits quota reply slots tenant
local ITEM = batch.shape(1, {
  "execution_id", "ticket", "is_resume", "namespace", "lane", "execution_kind", "concurrency_key",
}, {ticket = true, is_resume = true})

local function admit(q, item, now)
  local wrong = batch.check(item, ITEM)
  if wrong then return wrong end
  if tenant.is_foreign(q.def, item[4]) then return reply.refuse("quota_policy_not_found", q.id) end
  local who = {namespace = item[4], lane = item[5], execution_kind = item[6], concurrency_key = item[7]}
  local suffix = quota.suffix(q, who)
  local status, wait = slots.admit(q, suffix, item[1], item[2], item[3] == 1, now)
  -- Without a window, a slot may pass to the next waiting execution without a new admission.
  return {1, status, suffix, wait and digits.of(wait) or "", q.rate == 0 and "1" or "0"}
end

return function(K, A)
  local now = clock.now_ms()
  local items, wrong = batch.decode("items", A.items)
  if wrong then return wrong end
  local q, refusal = quota.load(K.quota)
  if not q then return refusal end

  local outcomes = {}
  for i, item in ipairs(items) do outcomes[i] = admit(q, item, now) end
  return {1, "OK", outcomes}
end
