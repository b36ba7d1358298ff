-- Open a suspension again that signals ended, because its handler rejected some of them: the same waitpoints with the
-- same tokens, the same condition and the same timeout. The signals that were not rejected count from the beginning.
-- @uses bounds condition event progress reply signal suspension token waitpoint
local M = {}

local REJECTED = "signal_rejected"
local MAX_PROBLEM = bounds.REJECTION_MAX_BYTES
local FIELDS = {"target_waitpoint_id", "observed_effect", "signal_name", "source_type", "source_identity"}
local CLOSED = {"closed_at", "close_reason", "all_satisfier_signals", "closer_signal_id", "satisfied_early"}

local function invalid(expected, got) return nil, reply.invalid("rejected", expected, got) end

-- {id, problem} of each rejected signal; or nil and a refusal, unless all of them ended the last wait.
function M.read(s, rest)
  local ended, out = {}, {}
  if s and s.close_reason == "resumed" then
    for _, id in ipairs(cjson.decode(s.all_satisfier_signals or "[]")) do ended[id] = true end
  end
  for i = 1, #rest, 2 do
    local id, problem = rest[i], rest[i + 1] or ""
    if not ended[id] then return nil, reply.refuse("signal_not_rejectable", id:sub(1, 128)) end
    if #problem > MAX_PROBLEM then return invalid("a problem of at most " .. MAX_PROBLEM .. " bytes", problem) end
    ended[id], out[#out + 1] = nil, {id = id, problem = problem}
  end
  if #out == 0 then return invalid("at least one signal", "") end
  return out
end

local function mark(x, now, rejected)
  for _, each in ipairs(rejected) do
    redis.call("HSET", signal.key(x.tag, each.id), "observed_effect", REJECTED)
    event.append(x, REJECTED, now, each.id .. " " .. each.problem)
  end
end

local function reopen_record(x, s, A)
  for _, name in ipairs(CLOSED) do s[name] = nil end
  s.suspension_id, s.lease_id, s.attempt_index = A.suspension_id, A.lease_id, x.current_attempt_index
  s.form = A.form ~= "" and A.form or nil
  local key = suspension.key(x)
  redis.call("HDEL", key, "form", unpack(CLOSED))
  redis.call("HSET", key, "suspension_id", s.suspension_id, "lease_id", s.lease_id, "attempt_index", s.attempt_index)
  if s.form then redis.call("HSET", key, "form", s.form) end
end

local function reopen_waitpoint(x, s, w)
  if w.is_unwritten then
    w.state = "active"
    suspension.write_waitpoint(x, s, w)
    waitpoint.write(w, {"signal_count", "1"})
    return
  end
  waitpoint.write(w, {"suspension_id", s.suspension_id, "state", "active"})
  redis.call("HDEL", waitpoint.key(w.tag, w.id), "closed_at", "close_reason")
  redis.call("DEL", waitpoint.condition_key(w))
end

-- The waitpoints of the suspension in order, and by id.
local function places_of(x, s)
  local list, by_id = {}, {}
  for i, id in ipairs(suspension.waitpoint_ids(s)) do
    local w = suspension.waitpoint(x, s, id)
    reopen_waitpoint(x, s, w)
    list[i], by_id[id] = {id = id, key = w.waitpoint_key, minted = token.of(w)}, w
  end
  return list, by_id
end

-- The signals at these waitpoints that were not rejected, in order of arrival.
local function left(x, by_id)
  local out = {}
  for _, id in ipairs(redis.call("ZRANGE", signal.list_key(x), 0, -1)) do
    local at, effect, name, source_type, identity = unpack(redis.call("HMGET", signal.key(x.tag, id), unpack(FIELDS)))
    if at and by_id[at] and effect ~= REJECTED then
      out[#out + 1] = {
        w = by_id[at],
        sent = {id = id, name = name or "", source_type = source_type or "", source_identity = identity or ""},
      }
    end
  end
  return out
end

-- Count them. Answers the signals that suffice, or nil.
local function credit(x, s, arrivals)
  local wanted, tallies, enough = condition.stored(s.resume_condition_json), {}, nil
  for _, each in ipairs(arrivals) do
    local place = wanted.tree and "" or each.w.id
    tallies[place] = tallies[place] or {progress.load(x, s.suspension_id, wanted, each.w), each.w}
    progress.credit(wanted, tallies[place][1], each.sent, each.w)
  end
  for _, pair in pairs(tallies) do
    progress.save(x, wanted, pair[1], pair[2])
    if pair[1].is_satisfied then enough = progress.satisfiers(x, wanted, pair[1]) end
  end
  return enough
end

-- Answers its waitpoints, and the signals that suffice already, or nil.
function M.open(x, s, A, now, rejected)
  mark(x, now, rejected)
  reopen_record(x, s, A)
  local list, by_id = places_of(x, s)
  return list, credit(x, s, left(x, by_id))
end

return M
