-- A flow's record: its keys, what is read of it at once, and the one rule that derives its state (D24).
-- @uses digits event reply
local M = {}

-- Those that are absent are 0.
local COUNTS = {
  node_count = 0, edge_count = 0, graph_revision = 0, moving_count = 0, members_completed = 0, members_failed = 0,
  members_cancelled = 0, members_expired = 0, members_skipped = 0, failure_count = 0, work_count = 0,
}
local ABSENT = {__index = COUNTS}

-- How the ends of members are counted, by their outcome.
M.COUNTED = {
  success = "members_completed", failed = "members_failed", cancelled = "members_cancelled",
  expired = "members_expired", skipped = "members_skipped",
}

local TERMINAL = {completed = true, failed = true, cancelled = true}

-- Names and keys of a flow, without reading it.
function M.at(tag, id)
  local base = "ff:flow:" .. tag .. ":" .. id
  return setmetatable({
    tag = tag, id = id, base = base, core = base .. ":core",
    changed = {public_flow_state = nil, moving_count = nil, members_completed = nil},
    -- Room for the usual fields of a record, so that the table need not grow while they are read into it.
    flow_id = nil, flow_kind = nil, public_flow_state = nil, node_count = nil, edge_count = nil, moving_count = nil,
    members_completed = nil, graph_revision = nil, created_at = nil, last_mutation_at = nil, sealed = nil, staged = nil,
  }, ABSENT)
end

-- The same from its core key, which must name the flow that the argument names; or nil and a refusal.
function M.of_key(core, id)
  local tag, named = core:match("^ff:flow:(%b{}):([^:]+):core$")
  if not tag then return nil, reply.invalid("flow_core", "ff:flow:{tag}:<flow_id>:core", core) end
  if id and id ~= named then return nil, reply.invalid("flow_id", "the one in the flow_core key", id) end
  return M.at(tag, named)
end

-- Read the record into f; nil when there is no such flow. Reading all of it costs less than looking for some fields.
function M.fill(f)
  local flat = redis.call("HGETALL", f.core)
  if #flat == 0 then return nil end
  for i = 1, #flat, 2 do
    local name = flat[i]
    f[name] = COUNTS[name] and flat[i + 1] + 0 or flat[i + 1]
  end
  f.was_ended = TERMINAL[f.public_flow_state] == true
  return f
end

function M.load(tag, id) return M.fill(M.at(tag, id)) end

-- The flow of a core key, or nil and a refusal.
function M.find(core, id)
  local f, refusal = M.of_key(core, id)
  if refusal then return nil, refusal end
  if not M.fill(f) then return nil, reply.refuse("flow_not_found") end
  return f
end

-- A refusal when the flow takes no more members and edges. One that was made piece by piece goes on when more comes.
function M.check_growth(f)
  if not M.has_ended(f) then return nil end
  if f.sealed or M.is_closed(f) then
    return reply.refuse("flow_already_terminal", f.public_flow_state)
  end
end

function M.key(f, name) return f.base .. ":" .. name end

function M.has_ended(f) return TERMINAL[f.public_flow_state] == true end

-- It ended before its members: nothing more follows from their ends.
function M.is_closed(f)
  return f.public_flow_state == "cancelled" or f.public_flow_state == "failed" and f.failure_policy == "fail_fast"
end

-- Change a field; it is written with the others when the step ends. nil drops it.
function M.set(f, name, value)
  if f[name] == value then return end
  f[name], f.changed[name] = value, true
end

function M.add(f, name, by)
  if by ~= 0 then f[name], f.changed[name] = f[name] + by, true end
end

-- How many members have not ended.
function M.left(f)
  return f.node_count - f.members_completed - f.members_failed - f.members_cancelled - f.members_expired
    - f.members_skipped
end

-- open: nothing has started. running: something runs or may. blocked: nothing may, and something is left.
local function derived(f)
  if M.has_ended(f) then return f.public_flow_state end
  if M.left(f) == 0 and f.node_count > 0 and f.work_count == 0 and not f.staged then
    return f.failure_count > 0 and "failed" or "completed"
  end
  if f.public_flow_state == "open" and not f.is_started then return "open" end
  return f.moving_count > 0 and "running" or "blocked"
end

-- What is about to be written and dropped, of one flow after the other.
local fields, gone = {"last_mutation_at"}, {}

local function save(f, now)
  local n, count = 2, 0
  for name in pairs(f.changed) do
    local value = f[name]
    if value == nil then
      count = count + 1
      gone[count] = name
    else
      fields[n + 1], fields[n + 2], n = name, COUNTS[name] and digits.of(value) or value, n + 2
    end
  end
  if n + count == 2 then return end
  fields[2] = digits.of(now)
  redis.call("HSET", f.core, unpack(fields, 1, n))
  if count > 0 then redis.call("HDEL", f.core, unpack(gone, 1, count)) end
  f.changed = {}
end

-- Derive its state and write what has changed. Answers whether it has ended with this, which is an event like its going
-- on again. collected: the batch that it is part of, if any.
function M.settle(f, now, collected)
  if f.is_reopened then event.append_flow(f, "flow_reopened", now, collected) end
  M.set(f, "public_flow_state", derived(f))
  local has_ended = M.has_ended(f)
  local ends = has_ended and not f.was_ended
  f.was_ended = has_ended
  if ends then
    M.set(f, "ended_at", digits.of(now))
    event.append_flow(f, "flow_" .. f.public_flow_state, now, collected)
  end
  f.is_reopened = nil
  if collected then collected.flow_states[f.id] = f.public_flow_state end
  save(f, now)
  return ends
end

-- An ended flow goes on: one of its members runs again, or a new one came.
function M.reopen(f)
  M.set(f, "public_flow_state", "running")
  f.ended_at, f.was_ended, f.changed.ended_at, f.is_reopened = nil, false, true, true
end

return M
