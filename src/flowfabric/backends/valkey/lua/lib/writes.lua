-- Writes: at once, or collected over a batch and written with one command a key.
-- @uses event
local M = {}

-- A collector; executions whose `writes` field holds it write through it. It also remembers what the batch looked up
-- once for all of its executions (`names`, `no_grants`, `accepted`).
function M.collector()
  return {zadd = {}, zrem = {}, sadd = {}, srem = {}, set = {}, emptied = {}, lines = {}, names = {}}
end

local function list_at(lists, key)
  local list = lists[key]
  if not list then
    list = {n = 0}
    lists[key] = list
  end
  return list
end

local function push(lists, key, member)
  local list = list_at(lists, key)
  local n = list.n + 1
  list[n], list.n = member, n
end

function M.set(x, key, value)
  if not x.writes then return redis.call("SET", key, value) end
  local list = x.writes.set
  local n = #list
  list[n + 1], list[n + 2] = key, value
end

function M.zadd(x, key, score)
  if not x.writes then return redis.call("ZADD", key, score, x.id) end
  local list = list_at(x.writes.zadd, key)
  local n = list.n
  list[n + 1], list[n + 2], list.n = score, x.id, n + 2
end

-- Removals are written before additions, so what is not there when the batch starts need not be removed.
function M.zrem(x, key)
  local collected = x.writes
  if not collected then return redis.call("ZREM", key, x.id) end
  local list = collected.zrem[key]
  if list == nil then
    list = redis.call("EXISTS", key) == 1 and {n = 0}
    collected.zrem[key] = list
  end
  if not list then return end
  local n = list.n + 1
  list[n], list.n = x.id, n
end

function M.sadd(x, key, member)
  if x.writes then return push(x.writes.sadd, key, member) end
  redis.call("SADD", key, member)
end

function M.srem(x, key, member)
  if x.writes then return push(x.writes.srem, key, member) end
  redis.call("SREM", key, member)
end

-- Add a member that most of a batch share; once is enough.
function M.sadd_once(x, key, member)
  if not x.writes then return redis.call("SADD", key, member) end
  local list = list_at(x.writes.sadd, key)
  if list[member] then return end
  list[member] = true
  push(x.writes.sadd, key, member)
end

local function forget(key, registry, member)
  if redis.call("EXISTS", key) == 0 then redis.call("SREM", registry, member) end
end

-- Take `member` out of `registry` when the queue at `key` has become empty.
function M.forget_if_empty(x, key, registry, member)
  if x.writes then
    x.writes.emptied[key] = {registry, member}
  else
    forget(key, registry, member)
  end
end

local function write(command, lists)
  for key, list in pairs(lists) do
    if list then redis.call(command, key, unpack(list, 1, list.n)) end
  end
end

-- Removals first: an execution may leave and enter the same index in one batch.
function M.flush(collected)
  if #collected.set > 0 then redis.call("MSET", unpack(collected.set)) end
  write("ZREM", collected.zrem)
  write("SREM", collected.srem)
  write("ZADD", collected.zadd)
  write("SADD", collected.sadd)
  for key, entry in pairs(collected.emptied) do forget(key, entry[1], entry[2]) end
  event.flush(collected)
end

return M
