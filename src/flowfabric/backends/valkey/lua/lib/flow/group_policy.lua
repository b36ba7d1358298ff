-- How the edges of a join are counted: the policy of an edge group, as callers state it.
-- @uses bounds join_record reply
local M = {}

local MAX_K = bounds.MAX_QUORUM

-- {variant, on_satisfied, k}, or nil and a refusal. k: text or a number; "" where it means nothing.
function M.read(variant, on_satisfied, k)
  if not join_record.VARIANTS[variant] then
    return nil, reply.invalid("policy_variant", "all_of, any_of or quorum", variant)
  end
  if variant == "all_of" then return {variant = variant} end
  if not join_record.DISPOSITIONS[on_satisfied] then
    return nil, reply.invalid("on_satisfied", "cancel_remaining or let_run", on_satisfied)
  end
  if variant == "any_of" then return {variant = variant, on_satisfied = on_satisfied} end
  local number = tostring(k):match("^%d+$") and tonumber(k)
  if not number or number < 1 or number > MAX_K then
    return nil, reply.invalid("k", "a whole number from 1 to " .. MAX_K, k)
  end
  return {variant = variant, on_satisfied = on_satisfied, k = number}
end

function M.is_same(g, wanted)
  return g.has_policy and g.policy_variant == wanted.variant and g.on_satisfied == wanted.on_satisfied
    and g.k == (wanted.k or 0)
end

-- Replaces an earlier policy.
function M.store(g, wanted, now)
  redis.call("HDEL", g.key, "on_satisfied", "k")
  join_record.write(g, "policy_variant", wanted.variant, "created_at", now)
  if wanted.on_satisfied then join_record.write(g, "on_satisfied", wanted.on_satisfied) end
  if wanted.k then join_record.write(g, "k", wanted.k) end
end

return M
