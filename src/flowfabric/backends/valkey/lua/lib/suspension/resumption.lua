-- How the last suspension of an execution ended, and the signals that ended it: the input of a
-- resumed worker.
-- @uses digits signal steps suspension waitpoint
local M = {}

local FIELDS = {
  "signal_name", "signal_category", "source_type", "source_identity", "correlation_id", "accepted_at",
  "payload_encoding", "target_waitpoint_id",
}
-- The most that is sent with a claim, because a hand-off runs in the step of another caller; a
-- worker asks for the rest.
local MOST_SIGNALS, MOST_BYTES = 8, 16384

-- {id, accepted_at} of each, oldest first.
local function in_order(x, ids)
  local out = {}
  if #ids == 1 then return {{ids[1]}} end
  for i, id in ipairs(ids) do out[i] = {id, tonumber(redis.call("ZSCORE", signal.list_key(x), id) or 0)} end
  table.sort(out, function(a, b)
    if a[2] ~= b[2] then return a[2] < b[2] end
    return a[1] < b[1]
  end)
  return out
end

-- A signal that was delivered in this step need not be read again.
local function just_told(told)
  local A = told.signal
  local out = {
    A.signal_id, A.signal_name, A.signal_category, A.source_type, A.source_identity, A.correlation_id,
    digits.of(told.at), A.payload_encoding ~= "json" and A.payload_encoding or "", told.waitpoint_id,
  }
  if A.payload ~= "" then out[10] = A.payload end
  return out
end

-- A payload is the last member, when there is one.
local function read(x, id)
  if x.told and x.told.signal.signal_id == id then return just_told(x.told) end
  local key = signal.key(x.tag, id)
  local found, out = redis.call("HMGET", key, unpack(FIELDS)), {id}
  for i = 1, #FIELDS do out[i + 1] = found[i] or "" end
  out[#out + 1] = redis.call("GET", key .. ":payload") or nil
  return out
end

local function page(x, ids, after, limit)
  local out, started = {}, after == ""
  for _, entry in ipairs(in_order(x, ids)) do
    if #out == limit then return out, "1" end
    if started then out[#out + 1] = read(x, entry[1]) end
    started = started or entry[1] == after
  end
  return out, "0"
end

local function waitpoints(x, s)
  local out = {}
  for i, id in ipairs(suspension.waitpoint_ids(s)) do
    local is_known = x.told and x.told.waitpoint_id == id
    out[i] = {id, is_known and x.told.waitpoint_key or s.unwritten_key or waitpoint.name(x.tag, id)}
  end
  return out
end

local function satisfiers(s) return s.satisfiers or cjson.decode(s.all_satisfier_signals or "[]") end

-- Whether there are more signals, suspension, attempt, how it ended, pointer, waitpoints, signals after `after`.
function M.read(x, s, after, limit)
  if not s then return {"0", "", "", "", "", {}, {}} end
  local signals, more = page(x, satisfiers(s), after, limit)
  return {
    more, s.suspension_id, s.attempt_index or "", suspension.ending(s), s.continuation_metadata_pointer or "",
    waitpoints(x, s), signals,
  }
end

-- The same with the number of recorded steps, packed for a claim; "" when it would be too large.
function M.packed(x)
  local s = x.closed_suspension or suspension.load(x)
  if s and #satisfiers(s) > MOST_SIGNALS then return "" end
  local found = M.read(x, s, "", MOST_SIGNALS)
  found[#found + 1] = digits.of(steps.count(x))
  local text = cmsgpack.pack(found)
  return #text <= MOST_BYTES and text or ""
end

return M
