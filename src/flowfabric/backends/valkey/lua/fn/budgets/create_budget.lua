--- Create a budget: limits by dimension, for a scope, with an optional reset interval. An existing one is kept.
-- @keys    budget ~limits ~usage ~budget_resets ~budget_policies
-- @args    budget_id:id scope_type scope_id enforcement_mode on_hard_limit on_soft_limit reset_interval_ms:nat
--          now_ms:nat dimension_count:nat *dimensions
-- @reply   budget_id
-- @errors  invalid_input
-- @repeat  safe
-- @uses    amounts budget clock digits reply tenant
local TEXT = {"scope_type", "scope_id", "enforcement_mode", "on_hard_limit", "on_soft_limit", "namespace", "name"}

return function(K, A)
  local now = clock.at(A.now_ms)
  local b, refusal = budget.at(K.budget)
  if not b then return refusal end
  if b.id ~= A.budget_id then return reply.invalid("budget_id", "the one in the key", A.budget_id) end
  local wrong = A.dimension_count > 0 and amounts.check_count("dimension_count", A.dimension_count)
  if wrong then return wrong end
  local limits, bad = amounts.limits(A.dimensions, A.dimension_count)
  if bad then return bad end
  A.namespace = A.dimensions[3 * A.dimension_count + 1] or ""
  A.name = A.dimensions[3 * A.dimension_count + 2] or ""
  wrong = tenant.check_owner(A.namespace, A.scope_type, A.scope_id)
  if wrong then return wrong end

  redis.call("SADD", "ff:idx:" .. b.tag .. ":budget_policies", b.id)
  if redis.call("EXISTS", b.key) == 1 then return reply.satisfied(b.id) end
  local fields = {
    "budget_id", b.id, "created_at", digits.of(now), "last_updated_at", digits.of(now), "breach_count", "0",
    "soft_breach_count", "0", "reset_interval_ms", digits.of(A.reset_interval_ms),
  }
  for _, name in ipairs(TEXT) do
    if A[name] ~= "" then fields[#fields + 1], fields[#fields + 2] = name, A[name] end
  end
  if A.reset_interval_ms > 0 then
    local due = digits.of(now + A.reset_interval_ms)
    fields[#fields + 1], fields[#fields + 2] = "next_reset_at", due
    redis.call("ZADD", "ff:idx:" .. b.tag .. ":budget_resets", due, b.id)
    budget.announce(b)
  end
  redis.call("HSET", b.key, unpack(fields))
  for _, each in ipairs(limits) do
    redis.call("HSET", b.limits, "hard:" .. each.name, digits.of(each.hard), "soft:" .. each.name,
      digits.of(each.soft))
  end

  return reply.ok(b.id)
end
