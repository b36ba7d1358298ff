-- A waitpoint: the addressable place where an execution waits. pending: created before the wait,
-- buffers signals; active: of the open suspension; closed. Usual and derived values are absent.
-- @uses digits index_key token
local M = {}

local CHUNK = 1000

-- The key of the waitpoint; its other keys add a colon, so an id has none.
function M.key(tag, id) return "ff:wp:" .. tag .. ":" .. id end

function M.is_id(id) return id ~= "" and #id <= 128 and not id:find(":", 1, true) end

function M.list_key(x) return x.base .. ":waitpoints" end

-- The buffered signals of a pending waitpoint, oldest first.
function M.buffer_key(w) return M.key(w.tag, w.id) .. ":signals" end

function M.condition_key(w) return M.key(w.tag, w.id) .. ":condition" end

-- The record, or nil.
function M.load(tag, id)
  if not M.is_id(id) then return nil end
  local flat = redis.call("HGETALL", M.key(tag, id))
  if #flat == 0 then return nil end
  local w = {tag = tag, id = id}
  for i = 1, #flat, 2 do w[flat[i]] = flat[i + 1] end
  return w
end

-- Its waitpoint_key; "" when there is none.
function M.name(tag, id) return redis.call("HGET", M.key(tag, id), "waitpoint_key") or "" end

-- A waitpoint of this execution; another's counts as none.
function M.of(x, id)
  local w = M.load(x.tag, id)
  return w and w.execution_id == x.id and w or nil
end

-- set: names and values in turn.
function M.write(w, set)
  for i = 1, #set, 2 do w[set[i]] = set[i + 1] end
  redis.call("HSET", M.key(w.tag, w.id), unpack(set))
end

-- minted: its token, if it has one already. more: further fields, names and values in turn.
function M.create(x, now, id, waitpoint_key, minted, more)
  local set = {
    "execution_id", x.id, "waitpoint_key", waitpoint_key, "created_at", digits.of(now),
    "attempt_index", x.current_attempt_index,
  }
  for _, fields in ipairs({more, minted and token.fields(minted)}) do
    for i = 1, #fields do set[#set + 1] = fields[i] end
  end
  M.write({tag = x.tag, id = id}, set)
  redis.call("SADD", M.list_key(x), id)
end

local function pending_key(tag) return index_key.partition({tag = tag}, "pending_waitpoint_expiry") end

function M.expect(tag, id, expires_at) redis.call("ZADD", pending_key(tag), digits.of(expires_at), id) end

function M.expect_no_more(tag, id) redis.call("ZREM", pending_key(tag), id) end

-- The pending waitpoints of an execution that have not expired. Closed ones are skipped.
function M.pending_of(x, now)
  local ids, found = redis.call("SMEMBERS", M.list_key(x)), {}
  for from = 1, #ids, CHUNK do
    local to = math.min(from + CHUNK - 1, #ids)
    for i, expires_at in ipairs(redis.call("ZMSCORE", pending_key(x.tag), unpack(ids, from, to))) do
      if expires_at and tonumber(expires_at) > now then found[#found + 1] = M.of(x, ids[from + i - 1]) end
    end
  end
  return found
end

-- All waitpoints with a record; a read for each.
function M.all_of(x)
  local found = {}
  for _, id in ipairs(redis.call("SMEMBERS", M.list_key(x))) do found[#found + 1] = M.of(x, id) end
  return found
end

-- No wait has used it, and none has closed it, other than time.
function M.is_unused(w) return w.state == "pending" or w.close_reason == "never_committed" end

-- any -> pending: the wait for which it was made is still to come.
function M.reopen(w, expires_at)
  redis.call("HDEL", M.key(w.tag, w.id), "suspension_id", "activated_at", "closed_at", "close_reason")
  redis.call("DEL", M.condition_key(w))
  M.write(w, {"state", "pending", "expires_at", digits.of(expires_at)})
  M.expect(w.tag, w.id, expires_at)
end

-- pending -> active. The suspension takes over its buffered signals.
function M.activate(w, now, suspension_id)
  M.write(w, {"suspension_id", suspension_id, "state", "active", "activated_at", digits.of(now)})
  redis.call("HDEL", M.key(w.tag, w.id), "expires_at")
  redis.call("DEL", M.buffer_key(w))
  M.expect_no_more(w.tag, w.id)
end

-- more: further fields, names and values in turn. has_none: no condition of its own.
function M.close(tag, id, reason, now, more, has_none)
  local w, set = {tag = tag, id = id}, {"state", "closed", "closed_at", digits.of(now), "close_reason", reason}
  for i = 1, more and #more or 0 do set[6 + i] = more[i] end
  M.write(w, set)
  local condition = M.condition_key(w)
  if not has_none and redis.call("EXISTS", condition) == 1 then
    redis.call("HSET", condition, "closed", "1", "closed_at", digits.of(now), "closed_reason", reason)
  end
end

return M
