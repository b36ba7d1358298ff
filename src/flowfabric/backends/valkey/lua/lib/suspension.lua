-- The suspension of an execution, one at a time: the open one, or the last one, which says what ended it.
-- Fields that are usual are absent: requested by a worker, waiting_for_signal, failing at its time-out.
-- @uses digits waitpoint
local M = {}

function M.key(x) return x.base .. ":suspension:current" end

-- The record, open or closed; nil when it was never suspended.
function M.load(x)
  local flat = redis.call("HGETALL", M.key(x))
  local s = {}
  for i = 1, #flat, 2 do s[flat[i]] = flat[i + 1] end
  return s.suspension_id and s or nil
end

function M.is_open(s) return s ~= nil and (s.closed_at or "") == "" end

-- The record while it is open.
function M.open_of(x)
  local s = M.load(x)
  return M.is_open(s) and s or nil
end

-- What ended it; "" while it is open. The record calls every resume `resumed`: one without signals was an operator's.
function M.ending(s)
  local reason = s.close_reason or ""
  return reason == "resumed" and not s.all_satisfier_signals and "resumed_by_operator" or reason
end

-- Its waitpoints, the first one first.
function M.waitpoint_ids(s)
  local ids = {s.waitpoint_id}
  if not s.additional_waitpoints_json then return ids end
  local ok, more = pcall(cjson.decode, s.additional_waitpoints_json)
  for _, each in ipairs(ok and type(more) == "table" and more or {}) do
    if type(each) == "table" and type(each.waitpoint_id) == "string" then ids[#ids + 1] = each.waitpoint_id end
  end
  return ids
end

-- Take the place of the last one, if there was one. fields: names and values in turn.
function M.store(x, fields, last)
  if last then redis.call("DEL", M.key(x)) end
  redis.call("HSET", M.key(x), unpack(fields))
end

local function has_tree(s) return (s.resume_condition_json or ""):find('"tree"', 1, true) end

-- Its end closes its conditions and all its waitpoints, whatever brought it (D1). by: suspension? (when it was read),
-- satisfiers? (the signals that count), closer? (the last of them), early? (nobody had to wait), fields? (of a
-- waitpoint to set, by id), at_once? (a waitpoint whose first signal sufficed).
function M.close(x, reason, now, by)
  by = by or {}
  local s, key = by.suspension or M.load(x), M.key(x)
  if not s then return end
  local set = {"closed_at", digits.of(now), "close_reason", reason}
  local function add(name, value)
    if value then set[#set + 1], set[#set + 2] = name, value end
  end
  add("all_satisfier_signals", by.satisfiers and #by.satisfiers > 0 and cjson.encode(by.satisfiers))
  add("closer_signal_id", by.closer)
  add("satisfied_early", by.early and "1")
  redis.call("HSET", key, unpack(set))
  if has_tree(s) then
    redis.call("DEL", key .. ":satisfied_set", key .. ":satisfied_set:signals", key .. ":member_map")
  end
  for _, id in ipairs(M.waitpoint_ids(s)) do
    waitpoint.close(x.tag, id, reason, now, by.fields and by.fields[id], by.at_once == id)
  end
  for i = 1, #set, 2 do s[set[i]] = set[i + 1] end
  x.closed_suspension = s
end

-- A replay begins without it, and nothing that was sent before is met at a waitpoint that was pending.
function M.forget(x, now)
  redis.call("UNLINK", M.key(x))
  for _, w in ipairs(waitpoint.pending_of(x, now)) do
    waitpoint.close(x.tag, w.id, "replayed", now)
    waitpoint.expect_no_more(x.tag, w.id)
  end
end

return M
