--- Report how many more may start within a quota now, or when; a waiting partition is noted first.
-- @keys    quota
-- @args    suffix waiting_tag=
-- @reply   room retry_after_ms waiting
-- @errors  invalid_input quota_policy_not_found corruption
-- @repeat  safe
-- @uses    clock digits limit_subscribers quota
return function(K, A)
  local q, refusal = quota.load(K.quota)
  if not q then return refusal end

  local key = quota.waiting(q, A.suffix)
  if A.waiting_tag ~= "" then
    limit_subscribers.note(key, A.waiting_tag)
    quota.note_counted(q, A.suffix)  -- so that reconciliation checks the holders of these counts
  end
  local room, wait = quota.room(q, A.suffix, clock.now_ms())
  return {1, "OK", digits.of(room), wait and digits.of(wait) or "", limit_subscribers.list(key)}
end
