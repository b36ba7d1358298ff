--- Say how the last suspension of an execution ended, and list the signals that ended it, as they arrived.
-- @keys    core
-- @args    execution_id:id attempt_index:nat? after limit:pos=100
-- @reply   more suspension_id attempt_index close_reason continuation_metadata_pointer waitpoints signals
-- @errors  invalid_input execution_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    record reply signal suspension waitpoint
local MAX_PAGE = 1000
local FIELDS = {
  "signal_name", "signal_category", "source_type", "source_identity", "correlation_id", "accepted_at",
  "payload_encoding", "target_waitpoint_id",
}

-- {id, accepted_at} of each, oldest first.
local function in_order(x, s)
  local out = {}
  for i, id in ipairs(cjson.decode(s.all_satisfier_signals or "[]")) do
    out[i] = {id, tonumber(redis.call("ZSCORE", signal.list_key(x), id) or 0)}
  end
  table.sort(out, function(a, b)
    if a[2] ~= b[2] then return a[2] < b[2] end
    return a[1] < b[1]
  end)
  return out
end

-- A payload is the last member, when there is one.
local function read(tag, id)
  local key = signal.key(tag, id)
  local found, out = redis.call("HMGET", key, unpack(FIELDS)), {id}
  for i = 1, #FIELDS do out[i + 1] = found[i] or "" end
  out[#out + 1] = redis.call("GET", key .. ":payload") or nil
  return out
end

local function page(x, s, A)
  local out, started = {}, A.after == ""
  for _, entry in ipairs(in_order(x, s)) do
    if #out == A.limit then return out, "1" end
    if started then out[#out + 1] = read(x.tag, entry[1]) end
    started = started or entry[1] == A.after
  end
  return out, "0"
end

local function waitpoints_of(x, s)
  local out = {}
  for i, id in ipairs(suspension.waitpoint_ids(s)) do
    local w = waitpoint.load(x.tag, id)
    out[i] = {id, w and w.waitpoint_key or ""}
  end
  return out
end

return function(K, A)
  local x = record.load(K.core)

  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end
  if not x then return reply.refuse("execution_not_found") end

  local s = suspension.load(x)
  if not s or A.attempt_index and A.attempt_index ~= tonumber(s.attempt_index) then
    return {1, "OK", "0", "", "", "", "", {}, {}}
  end
  local signals, more = page(x, s, A)
  return {
    1, "OK", more, s.suspension_id, s.attempt_index or "", suspension.ending(s), s.continuation_metadata_pointer or "",
    waitpoints_of(x, s), signals,
  }
end
