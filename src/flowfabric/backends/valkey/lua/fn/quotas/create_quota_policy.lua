--- Create a quota policy: starts per sliding window, and concurrency. An existing one is kept.
-- @keys    quota ~window ~concurrency ~admitted_set ~quota_policies
-- @args    quota_policy_id:id window_seconds:nat max_requests_per_window:nat max_concurrent:nat now_ms:nat
--          jitter_ms:nat=0 key_by= scope_type= scope_id= namespace=
-- @reply   quota_policy_id
-- @errors  invalid_input invalid_quota_spec
-- @repeat  safe
-- @uses    clock digits quota reply tenant
local KEYS_BY = {[""] = true, namespace = true, lane = true, execution_kind = true, concurrency_key = true}

return function(K, A)
  local q, refusal = quota.at(K.quota)
  if not q then return refusal end
  if q.id ~= A.quota_policy_id then return reply.invalid("quota_policy_id", "the one in the key", A.quota_policy_id) end
  if not KEYS_BY[A.key_by] then return reply.refuse("invalid_quota_spec", "key_by " .. A.key_by) end
  local wrong = tenant.check_owner(A.namespace, A.scope_type, A.scope_id)
  if wrong then return wrong end

  if redis.call("EXISTS", q.key) == 1 then return reply.satisfied(q.id) end
  local fields = {
    "quota_policy_id", q.id, "requests_per_window_seconds", digits.of(A.window_seconds), "max_requests_per_window",
    digits.of(A.max_requests_per_window), "active_concurrency_cap", digits.of(A.max_concurrent), "created_at",
    digits.of(clock.at(A.now_ms)),
  }
  if A.jitter_ms > 0 then fields[#fields + 1], fields[#fields + 2] = "jitter_ms", digits.of(A.jitter_ms) end
  for _, name in ipairs({"key_by", "scope_type", "scope_id", "namespace"}) do
    if A[name] ~= "" then fields[#fields + 1], fields[#fields + 2] = name, A[name] end
  end
  redis.call("HSET", q.key, unpack(fields))
  redis.call("SADD", "ff:idx:" .. q.tag .. ":quota_policies", q.id)

  return reply.ok(q.id)
end
