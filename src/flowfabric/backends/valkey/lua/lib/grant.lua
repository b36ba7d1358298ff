-- The short-lived permission to claim, resume or reclaim one execution.
-- @uses reply
local M = {}

function M.key(x) return x.base .. ":claim_grant" end

-- Few batches meet a grant at all, which one question settles. bases: those of the executions to look at.
function M.look_ahead(collected, bases)
  local keys = {}
  for i = 1, #bases do keys[i] = bases[i] .. ":claim_grant" end
  collected.no_grants = #keys == 0 or redis.call("EXISTS", unpack(keys)) == 0
end

-- A grant that ran out counts as gone even before the server has removed it.
function M.is_out(x, now)
  if x.writes and x.writes.no_grants then return false end
  return tonumber(redis.call("HGET", M.key(x), "grant_expires_at") or 0) >= now
end

-- Refusal or nil: is this worker's grant out and alive?
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
  return due
end

function M.consume(x) redis.call("DEL", M.key(x)) end

return M
