-- The suspension of an execution, one at a time: the open one, or the last one and what ended it.
-- Usual values are absent: requested by a worker, waiting_for_signal, failing at its timeout. Most
-- suspensions have one waitpoint whose token was not issued. Its key is stored here as
-- unwritten_key, and it gets a record of its own when its token is read, or when a signal arrives
-- that does not suffice.
-- @uses digits hash lanes waitpoint
local M = {}

function M.key(x) return x.base .. ":suspension:current" end

-- The record, open or closed; nil when it was never suspended.
function M.load(x)
  local flat = redis.call("HGETALL", M.key(x))
  -- Room for the usual fields, so that the table need not grow while they are read into it.
  local s = {
    suspension_id = nil, waitpoint_id = nil, unwritten_key = nil, created_at = nil, attempt_index = nil,
    resume_condition_json = nil, idempotency_key = nil, lease_id = nil, closed_at = nil, close_reason = nil,
    continuation_metadata_pointer = nil, all_satisfier_signals = nil, closer_signal_id = nil, wanted = nil,
  }
  for i = 1, #flat, 2 do s[flat[i]] = flat[i + 1] end
  return s.suspension_id and s or nil
end

-- The same before a new one starts, and whether its first waitpoint exists already. Nearly always
-- there is neither, and no lane settings, which are read next.
function M.load_last(x, waitpoint_id)
  local key, settings = waitpoint.key(x.tag, waitpoint_id), lanes.config_key(x.tag, x.lane_id)
  if redis.call("EXISTS", M.key(x), key, settings) == 0 then
    lanes.have_none(x)
    return nil, false
  end
  return M.load(x), redis.call("EXISTS", key) == 1
end

function M.is_open(s) return s ~= nil and (s.closed_at or "") == "" end

-- The record while it is open.
function M.open_of(x)
  local s = M.load(x)
  return M.is_open(s) and s or nil
end

-- The reason of its end; "" while it is open. The record has `resumed` for every resume, also by an operator.
function M.ending(s)
  local reason = s.close_reason or ""
  return reason == "resumed" and not s.all_satisfier_signals and "resumed_by_operator" or reason
end

-- Its waitpoints in order.
function M.waitpoint_ids(s)
  local ids = {s.waitpoint_id}
  if not s.additional_waitpoints_json then return ids end
  local ok, more = pcall(cjson.decode, s.additional_waitpoints_json)
  for _, each in ipairs(ok and type(more) == "table" and more or {}) do
    if type(each) == "table" and type(each.waitpoint_id) == "string" then ids[#ids + 1] = each.waitpoint_id end
  end
  return ids
end

-- The execution's waitpoint with this id, also when it has no record; or nil.
function M.waitpoint(x, s, id)
  if not s or not s.unwritten_key or s.waitpoint_id ~= id then return waitpoint.of(x, id) end
  return {
    tag = x.tag, id = id, execution_id = x.id, waitpoint_key = s.unwritten_key, created_at = s.created_at,
    suspension_id = s.suspension_id, state = M.is_open(s) and "active" or "closed", is_unwritten = true,
  }
end

-- Give it a record. minted: its token, if it gets one.
function M.write_waitpoint(x, s, w, minted)
  waitpoint.create(x, tonumber(s.created_at), w.id, w.waitpoint_key, minted,
    {"suspension_id", s.suspension_id, "state", w.state})
  redis.call("HDEL", M.key(x), "unwritten_key")
  s.unwritten_key, w.is_unwritten = nil, nil
end

-- Store the collected fields in place of the last suspension, if any.
function M.store(x, last)
  if last then redis.call("DEL", M.key(x)) end
  hash.store(M.key(x))
end

local function has_tree(s) return s.resume_condition_json and s.resume_condition_json:find('"tree"', 1, true) end

local function close_waitpoints(x, s, reason, now, by)
  for _, id in ipairs(M.waitpoint_ids(s)) do
    waitpoint.close(x.tag, id, reason, now, by.fields and by.fields[id], by.at_once == id)
  end
end

-- Its end closes its conditions and all its waitpoints, whatever the cause (D1). by: suspension?
-- (if it was read), satisfiers? (the signals that count), closer? (the last of them), early? (it
-- never waited), fields? (of a waitpoint to set, by id), at_once? (a waitpoint whose first signal
-- sufficed).
function M.close(x, reason, now, by)
  by = by or {}
  local s, key = by.suspension or M.load(x), M.key(x)
  if not s then return end
  hash.begin()
  hash.put("closed_at", digits.of(now))
  hash.put("close_reason", reason)
  hash.put("all_satisfier_signals", by.satisfiers and #by.satisfiers > 0 and cjson.encode(by.satisfiers))
  hash.put("closer_signal_id", by.closer)
  hash.put("satisfied_early", by.early and "1")
  hash.store(key)
  hash.copy(s)
  if has_tree(s) then
    redis.call("DEL", key .. ":satisfied_set", key .. ":satisfied_set:signals", key .. ":member_map")
  end
  if not s.unwritten_key then close_waitpoints(x, s, reason, now, by) end
  s.satisfiers = by.satisfiers
  x.closed_suspension = s
end

-- A replay starts without it, and without the buffered signals of pending waitpoints. One that is
-- out of time closes, too, so that no later retry opens it again.
function M.forget(x, now)
  redis.call("UNLINK", M.key(x))
  for _, w in ipairs(waitpoint.all_of(x)) do
    if waitpoint.is_unused(w) then
      waitpoint.close(x.tag, w.id, "replayed", now)
      waitpoint.expect_no_more(x.tag, w.id)
    end
  end
end

return M
