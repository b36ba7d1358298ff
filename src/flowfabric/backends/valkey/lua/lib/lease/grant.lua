-- The short-lived permission to claim, resume or reclaim one execution.
-- @uses digits reply
local M = {}

function M.key(x) return x.base .. ":claim_grant" end

-- The record says until when a grant is out, so that a batch claim need not read the grants. An
-- offer is out in the same way, but not for its own worker once its limits have admitted it.
function M.is_out(x, now)
  return x.claim_grant_until ~= nil and tonumber(x.claim_grant_until) >= now and not x.is_admitted
end

-- A refusal or nil: does this worker hold a valid grant?
function M.check(x, worker_id, now)
  local held = redis.call("HMGET", M.key(x), "worker_id", "grant_expires_at")
  if held[1] ~= worker_id then return reply.refuse("invalid_claim_grant") end
  if tonumber(held[2] or 0) < now then return reply.refuse("claim_grant_expired") end
end

function M.issue(x, now, A)
  local due = now + A.grant_ttl_ms
  local fields = {"worker_id", A.worker_id, "worker_instance_id", A.worker_instance_id, "lane_id", A.lane_id,
    "created_at", now, "grant_expires_at", due}
  for _, name in ipairs({"capability_hash", "route_snapshot_json", "admission_summary"}) do
    if A[name] ~= "" then
      fields[#fields + 1] = name
      fields[#fields + 1] = A[name]
    end
  end
  redis.call("HSET", M.key(x), unpack(fields))
  redis.call("PEXPIREAT", M.key(x), due)
  redis.call("HSET", x.core, "claim_grant_until", digits.of(due))
  return due
end

function M.consume(x)
  redis.call("DEL", M.key(x))
  if x.claim_grant_until then redis.call("HDEL", x.core, "claim_grant_until") end
  x.claim_grant_until = nil
end

return M
