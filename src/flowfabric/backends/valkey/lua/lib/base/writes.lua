-- Writes: at once, or collected over a batch and written with one command per key.
-- @uses due_hint event notify upcalls
local M = {}

-- A collector, the `writes` field of executions that write through it. It also caches lookups for
-- the batch; docs/explanation/lua-steps.md lists its fields. Executions with a concurrency key
-- write at once, because others look for them.
function M.collector()
  return {
    zadd = {}, zrem = {}, sadd = {}, srem = {}, set = {}, emptied = {}, wake = {}, due = {}, stopped = {}, lines = {},
    lanes = {}, crowds = {}, flow_states = {}, promoted = {},
  }
end

local function new_list(lists, key)
  local list = {n = 0}
  lists[key] = list
  return list
end

-- Add a member: the execution by default, or all executions of a bulk step
-- (lib/record/bulk_step.lua).
local function push(list, x, member)
  local n, ids = list.n, not member and x.ids
  if ids then
    for i = 1, #ids do list[n + i] = ids[i] end
    list.n = n + #ids
  else
    list[n + 1], list.n = member or x.id, n + 1
  end
end

function M.set(x, key, value)
  if not x.writes then return redis.call("SET", key, value) end
  local list = x.writes.set
  list[#list + 1], list[#list + 2] = key, value
end

function M.zadd(x, key, score)
  local collected = x.writes
  if not collected then return redis.call("ZADD", key, score, x.id) end
  local list = collected.zadd[key] or new_list(collected.zadd, key)
  local n, ids = list.n, x.ids
  list[n + 1], list[n + 2] = score, ids and ids[1] or x.id
  for i = 2, ids and #ids or 1 do
    n = n + 2
    list[n + 1], list[n + 2] = score, ids[i]
  end
  list.n = n + 2
end

-- A timer: engines are notified if it is due soon, unless `now` is left out.
function M.zadd_timer(x, key, due, now)
  M.zadd(x, key, due)
  due = tonumber(due)
  if not now or not due_hint.is_soon(due, now) then return end
  if not x.writes then return due_hint.tell(x.tag, key, due, now) end
  local known = x.writes.due[key]
  if not known or due < known.due then x.writes.due[key] = {tag = x.tag, due = due, now = now} end
end

-- Removals are written before additions, so a key that does not exist when the batch starts needs
-- none.
function M.zrem(x, key)
  local collected = x.writes
  if not collected then return redis.call("ZREM", key, x.id) end
  local list = collected.zrem[key]
  if list == nil then
    list = redis.call("EXISTS", key) == 1 and {n = 0}
    collected.zrem[key] = list
  end
  if list then push(list, x) end
end

local function member_writer(command, name)
  return function(x, key, member)
    if not x.writes then return redis.call(command, key, member or x.id) end
    local lists = x.writes[name]
    push(lists[key] or new_list(lists, key), x, member)
  end
end

M.sadd, M.srem = member_writer("SADD", "sadd"), member_writer("SREM", "srem")

-- Add a member that most of a batch share, once.
function M.sadd_once(x, key, member)
  if not x.writes then return redis.call("SADD", key, member) end
  local list = x.writes.sadd[key] or new_list(x.writes.sadd, key)
  if not list[member] then push(list, x, member) end
  list[member] = true
end

local function forget(key, registry, member)
  if redis.call("EXISTS", key) == 0 then redis.call("SREM", registry, member) end
end

-- Remove `member` from `registry` if the queue at `key` has become empty.
function M.forget_if_empty(x, key, registry, member)
  if not x.writes then return forget(key, registry, member) end
  x.writes.emptied[key] = {registry, member}
end

local function write(command, lists)
  for key, list in pairs(lists) do if list then redis.call(command, key, unpack(list, 1, list.n)) end end
end

-- Removals first: an execution may leave and enter the same index in one batch.
local function write_all(collected)
  if collected.crowds[1] then upcalls.list_bulk_steps(collected) end
  if #collected.set > 0 then redis.call("MSET", unpack(collected.set)) end
  write("ZREM", collected.zrem)
  write("SREM", collected.srem)
  write("ZADD", collected.zadd)
  write("SADD", collected.sadd)
  for key, entry in pairs(collected.emptied) do forget(key, entry[1], entry[2]) end
  for key, timer in pairs(collected.due) do due_hint.tell(timer.tag, key, timer.due, timer.now) end
  if not collected.wakes_later then notify.of_work(collected) end
  if not collected.tells_later then notify.of_room(collected) end
  event.flush(collected)
end

-- Flows whose members have moved get their states before everything is written.
function M.settle(collected)
  local run = collected.run
  if not run or not run.is_unsettled then return end
  run.is_unsettled = false
  upcalls.settle(run)
end

function M.flush(collected)
  M.settle(collected)
  write_all(collected)
end

-- Write everything collected so far, so that the next item of the batch finds it.
function M.write_through(collected)
  write_all(collected)
  if collected.wakes_later then notify.of_work(collected) end
  if collected.tells_later then notify.of_room(collected) end
  for _, name in ipairs({"zadd", "zrem", "sadd", "srem", "set", "emptied", "wake", "due", "stopped", "lines"}) do
    collected[name] = {}
  end
end

return M
