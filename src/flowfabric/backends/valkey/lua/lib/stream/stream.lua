-- The output stream of one attempt: its names, its end and its state. The first frame notes the
-- attempt in the record, so executions without output pay nothing.
-- @uses digits record
local M = {}

-- How an attempt without a stream ended, by its archived state and by the outcome of its execution.
local BY_STATE = {
  ended_success = "attempt_success", ended_failure = "attempt_failure", ended_cancelled = "attempt_cancelled",
  interrupted_reclaimed = "lease_expired",
}
local BY_OUTCOME = {success = "attempt_success", cancelled = "attempt_cancelled", expired = "expired"}

function M.key(x, index) return "ff:stream:" .. x.tag .. ":" .. x.id .. ":" .. index end

-- Every key of an attempt's output.
function M.keys(x, index)
  local key = M.key(x, index)
  return {key, key .. ":meta", key .. ":live", key .. ":deltas", record.attempt_key(x, index) .. ":summary"}
end

-- Ids follow the store's clock and never go back, whatever the clock does after a failover.
function M.next_id(now, last)
  local last_ms = last and tonumber(last:match("^%d+")) or 0
  return digits.of(last_ms > now and last_ms or now) .. "-*"
end

-- Close the stream of the attempt if it has an open one. The stream holds only frames, because
-- other programs read it directly; the event of the same step wakes readers that wait for the end.
function M.close(x, index, reason, now)
  if not index or x.stream_attempt_index ~= index then return end
  local meta = M.key(x, index) .. ":meta"
  if redis.call("HSETNX", meta, "closed_at", digits.of(now)) == 0 then return end
  redis.call("HSET", meta, "closed_reason", reason)
end

-- Another attempt has replaced it, which is more precise than a lost lease.
function M.close_reclaimed(x, index, now)
  M.close(x, index, "reclaimed", now)
  if index and x.stream_attempt_index == index then
    redis.call("HSET", M.key(x, index) .. ":meta", "closed_reason", "reclaimed")
  end
end

-- When and why an attempt without output ended, from the records; nothing while it may still emit.
function M.ended(x, index)
  if index >= record.attempt_count(x) then
    if x.lifecycle_phase == "terminal" then return x.completed_at, "never_started" end
    return nil
  end
  local put_away = redis.call("HMGET", record.attempt_key(x, index), "ended_at", "attempt_state")
  if put_away[1] then return put_away[1], BY_STATE[put_away[2]] or "attempt_failure" end
  if x.attempt_state == "attempt_terminal" then
    return x.completed_at, BY_OUTCOME[x.terminal_outcome] or "attempt_failure"
  end
  if x.lease_expired_at then return x.lease_expired_at, "lease_expired" end
  if x.lease_revoked_at then return x.lease_revoked_at, "lease_revoked" end
end

return M
