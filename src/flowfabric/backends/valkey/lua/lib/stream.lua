-- The output stream of one attempt: its names, its end, and how it stands. The first frame notes in the record which
-- attempt has one, so executions that never emit pay for nothing.
-- @uses digits record
local M = {}

-- How an attempt that has no stream ended, by what was put away of it, and by how its execution ended.
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

-- The last entry of a closed stream is no frame: it wakes whoever waits for one. Other programs, which read the stream
-- as it is, find a frame type in it, too.
function M.is_end(entry) return entry[2][1] == "closed_reason" end

-- Close the attempt's stream where it has one and it is still open.
function M.close(x, index, reason, now)
  if not index or x.stream_attempt_index ~= index then return end
  local key = M.key(x, index)
  local found = redis.call("HMGET", key .. ":meta", "closed_at", "last_sequence")
  if found[1] then return end
  local at = digits.of(now)
  redis.call("HSET", key .. ":meta", "closed_at", at, "closed_reason", reason)
  redis.call("XADD", key, M.next_id(now, found[2]), "closed_reason", reason, "closed_at", at, "frame_type", "closed",
    "payload", "")
end

-- When and why an attempt ended that never emitted, as the records tell it; nothing while it may still emit.
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
