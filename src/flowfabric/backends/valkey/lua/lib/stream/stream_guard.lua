-- The guard of appends to the stream of an attempt. A frame is small and a record is not, so only
-- the fields of the guard are read.
-- @uses reply stream
local M = {}

local GUARD = {
  "lifecycle_phase", "ownership_state", "lease_expires_at", "current_lease_id", "current_lease_epoch",
  "current_attempt_id", "current_attempt_index", "stream_attempt_index",
}
local META = {
  "closed_at", "closed_reason", "frame_count", "total_bytes", "last_sequence", "retention_maxlen", "numbered",
  "has_durable_frame", "ema_rate_hz", "last_append_ts_ms", "step_frames", "void_frames",
  "void_deleted", "swept",
}

-- Why the caller is not the owner, or nil. found: the fields of the guard.
local function stale(found, fence, now)
  if found[2] == "lease_revoked" then return "lease_revoked" end
  if found[2] or tonumber(found[3] or 0) <= now then return "lease_expired" end
  local is_owner = found[4] == fence.lease_id and (found[5] or "0") == fence.lease_epoch
    and (fence.attempt_id == "" or found[6] == fence.attempt_id)
  if not is_owner or (found[7] or "0") ~= fence.attempt_index then return "stale_lease" end
end

-- The stream, or nil and a refusal. fence: lease_id, lease_epoch, attempt_id ("" is any) and attempt_index.
function M.open(x, fence, now)
  local found = redis.call("HMGET", x.core, unpack(GUARD))
  if found[1] ~= "active" then return nil, reply.refuse("stream_closed", found[1] or "execution_not_found") end
  local why = stale(found, fence, now)
  if why then return nil, reply.refuse("stale_owner_cannot_append", why) end
  local index = fence.attempt_index
  local key = stream.key(x, index)
  local meta = redis.call("HMGET", key .. ":meta", unpack(META))
  if meta[1] then return nil, reply.refuse("stream_closed", meta[2] or "") end
  return {
    key = key, index = index, epoch = fence.lease_epoch, is_noted = found[8] == index, is_new = not meta[3],
    count = tonumber(meta[3] or 0), bytes = tonumber(meta[4] or 0), last = meta[5], maxlen = tonumber(meta[6] or 0),
    numbered = meta[7], is_fleeting = meta[8] == "0", rate = meta[9] and tonumber(meta[9]),
    rate_at = meta[10] and tonumber(meta[10]), stepped = tonumber(meta[11] or 0), void = tonumber(meta[12] or 0),
    deleted = tonumber(meta[13] or 0), swept = meta[14],
  }
end

return M
