-- Index writes: at once, or collected over a batch and written with one command a key.
local M = {}

-- A collector; executions whose `writes` field holds it write through it.
function M.collector() return {zadd = {}, zrem = {}, sadd = {}, srem = {}, emptied = {}} end

local function collect(into, key, ...)
  local list = into[key]
  if not list then
    list = {}
    into[key] = list
  end
  for i = 1, select("#", ...) do list[#list + 1] = (select(i, ...)) end
end

function M.zadd(x, key, score)
  if x.writes then return collect(x.writes.zadd, key, score, x.id) end
  redis.call("ZADD", key, score, x.id)
end

function M.zrem(x, key)
  if x.writes then return collect(x.writes.zrem, key, x.id) end
  redis.call("ZREM", key, x.id)
end

function M.sadd(x, key, member)
  if x.writes then return collect(x.writes.sadd, key, member) end
  redis.call("SADD", key, member)
end

function M.srem(x, key, member)
  if x.writes then return collect(x.writes.srem, key, member) end
  redis.call("SREM", key, member)
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
  for key, list in pairs(lists) do redis.call(command, key, unpack(list)) end
end

-- Removals first: an execution may leave and enter the same index in one batch.
function M.flush(collected)
  write("ZREM", collected.zrem)
  write("SREM", collected.srem)
  write("ZADD", collected.zadd)
  write("SADD", collected.sadd)
  for key, entry in pairs(collected.emptied) do forget(key, entry[1], entry[2]) end
end

return M
