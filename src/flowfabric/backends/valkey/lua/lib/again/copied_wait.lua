-- The last wait of an execution, given to a fork: how it ended, and copies of the signals that ended it. The source may
-- be deleted before the fork has come there.
-- @uses signal suspension waitpoint
local M = {}

-- An id for the copy, which the same call would choose again.
local function id_for(fork, id)
  local hex = redis.sha1hex(fork.id .. ":" .. id)
  return ("%s-%s-4%s-8%s-%s"):format(hex:sub(1, 8), hex:sub(9, 12), hex:sub(13, 15), hex:sub(16, 18), hex:sub(19, 30))
end

-- The id of the copy; that of the signal itself when there is none to copy.
local function copy_signal(x, fork, id)
  local from, copied = signal.key(x.tag, id), id_for(fork, id)
  local fields = redis.call("HGETALL", from)
  if #fields == 0 then return id end
  local to, payload = signal.key(x.tag, copied), redis.call("GET", from .. ":payload")
  redis.call("HSET", to, unpack(fields))
  if payload then redis.call("SET", to .. ":payload", payload) end
  redis.call("ZADD", signal.list_key(fork), redis.call("ZSCORE", signal.list_key(x), id) or "0", copied)
  return copied
end

-- s: the suspension of the source, which has ended.
function M.give(x, fork, s)
  local ids, copies = cjson.decode(s.all_satisfier_signals or "[]"), {}
  for i, id in ipairs(ids) do copies[i] = copy_signal(x, fork, id) end
  redis.call("HSET", suspension.key(fork), unpack(redis.call("HGETALL", suspension.key(x))))
  if #copies > 0 then redis.call("HSET", suspension.key(fork), "all_satisfier_signals", cjson.encode(copies)) end
  if not s.additional_waitpoints_json then
    local name = s.unwritten_key or waitpoint.name(x.tag, s.waitpoint_id)
    redis.call("HSET", suspension.key(fork), "unwritten_key", name)
  end
end

return M
