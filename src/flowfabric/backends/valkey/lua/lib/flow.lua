-- A flow's record: its keys, what is read of it at once, and the one rule that derives its state (D24).
-- @uses digits event reply
local M = {}

-- Those that are absent are 0.
local COUNTS = {
  "node_count", "edge_count", "graph_revision", "moving_count", "members_completed", "members_failed",
  "members_cancelled", "members_expired", "members_skipped", "failure_count", "work_count",
}

-- How the ends of members are counted, by their outcome.
M.COUNTED = {
  success = "members_completed", failed = "members_failed", cancelled = "members_cancelled",
  expired = "members_expired", skipped = "members_skipped",
}

local TERMINAL = {completed = true, failed = true, cancelled = true}

-- Names and keys of a flow, without reading it.
function M.at(tag, id)
  local base = "ff:flow:" .. tag .. ":" .. id
  return {tag = tag, id = id, base = base, core = base .. ":core", changed = {}}
end

-- The same from its core key, which must name the flow that the argument names; or nil and a refusal.
function M.of_key(core, id)
  local tag, named = core:match("^ff:flow:(%b{}):([^:]+):core$")
  if not tag then return nil, reply.invalid("flow_core", "ff:flow:{tag}:<flow_id>:core", core) end
  if id and id ~= named then return nil, reply.invalid("flow_id", "the one in the flow_core key", id) end
  return M.at(tag, named)
end

-- Read the record into f; nil when there is no such flow. It is small, so reading all of it costs less than looking for
-- each field that a step may need.
function M.fill(f)
  local flat = redis.call("HGETALL", f.core)
  if #flat == 0 then return nil end
  for i = 1, #flat, 2 do f[flat[i]] = flat[i + 1] end
  for i = 1, #COUNTS do f[COUNTS[i]] = tonumber(f[COUNTS[i]] or 0) end
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
  if by ~= 0 then M.set(f, name, f[name] + by) end
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

local function save(f, now)
  local set, gone = {"last_mutation_at", digits.of(now)}, {}
  for name in pairs(f.changed) do
    local value = f[name]
    if value == nil then
      gone[#gone + 1] = name
    else
      local n = #set
      set[n + 1], set[n + 2] = name, type(value) == "number" and digits.of(value) or value
    end
  end
  if #set > 2 or #gone > 0 then redis.call("HSET", f.core, unpack(set)) end
  if #gone > 0 then redis.call("HDEL", f.core, unpack(gone)) end
  f.changed = {}
end

-- Derive its state and write what has changed. Answers whether it has ended with this, which is an event like its going
-- on again. collected: the batch that it is part of, if any.
function M.settle(f, now, collected)
  if f.is_reopened then event.append_flow(f, "flow_reopened", now, collected) end
  M.set(f, "public_flow_state", derived(f))
  local ends = not f.was_ended and M.has_ended(f)
  f.was_ended = M.has_ended(f)
  if ends then
    M.set(f, "ended_at", now)
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
