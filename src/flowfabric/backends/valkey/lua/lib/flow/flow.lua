-- The record of a flow: its keys, its fields, and changes to them.
-- @uses reply tenant
local M = {}

-- Absent counts are 0.
local COUNTS = {
  node_count = 0, edge_count = 0, graph_revision = 0, moving_count = 0, members_completed = 0, members_failed = 0,
  members_cancelled = 0, members_expired = 0, members_skipped = 0, failure_count = 0, work_count = 0,
}
local ABSENT = {__index = COUNTS}

-- The counter of ended members, by outcome.
M.COUNTED = {
  success = "members_completed", failed = "members_failed", cancelled = "members_cancelled",
  expired = "members_expired", skipped = "members_skipped",
}

-- A flow with only these fields is plain and stores is_plain: a step reads few of them
-- (lib/flow/flow_state.lua writes the changes).
local PLAIN = {
  flow_id = true, flow_kind = true, namespace = true, created_at = true, last_mutation_at = true, ended_at = true,
  graph_revision = true, node_count = true, edge_count = true, public_flow_state = true, moving_count = true,
  members_completed = true, sealed = true, is_plain = true,
}

-- Do these fields, names and values in turn, make a plain flow?
function M.are_plain(fields)
  for i = 1, #fields, 2 do
    if not PLAIN[fields[i]] then return false end
  end
  return true
end

local TERMINAL = {completed = true, failed = true, cancelled = true}

-- Names and keys of a flow, without reading it.
function M.at(tag, id)
  return setmetatable({
    tag = tag, id = id, core = "ff:flow:" .. tag .. ":" .. id .. ":core",
    -- Room for the fields of a step, so that the table does not grow while they are read.
    is_plain = nil, public_flow_state = nil, node_count = nil, moving_count = nil, members_completed = nil,
    stored_moving = nil, stored_completed = nil, was_ended = nil,
  }, ABSENT)
end

-- The same from its core key, which must name the given flow; or nil and a refusal.
function M.of_key(core, id)
  local tag, named = core:match("^ff:flow:(%b{}):([^:]+):core$")
  if not tag then return nil, reply.invalid("flow_core", "ff:flow:{tag}:<flow_id>:core", core) end
  if id and id ~= named then return nil, reply.invalid("flow_id", "the one in the flow_core key", id) end
  return M.at(tag, named)
end

-- The values to compare with later.
local function as_stored(f)
  f.stored_moving, f.stored_completed = f.moving_count, f.members_completed
  f.was_ended = TERMINAL[f.public_flow_state] == true
  return f
end

-- Read the record into f; nil when there is no such flow. Reading all fields costs less than
-- finding some.
function M.fill(f)
  local flat = redis.call("HGETALL", f.core)
  if #flat == 0 then return nil end
  for i = 1, #flat, 2 do
    local name = flat[i]
    f[name] = COUNTS[name] and flat[i + 1] + 0 or flat[i + 1]
  end
  return as_stored(f)
end

-- A flow that the caller names: nil also when it is hidden from the caller.
function M.named(f)
  local found = M.fill(f)
  return found and not tenant.hides(found.namespace) and found or nil
end

function M.load(tag, id) return M.named(M.at(tag, id)) end

-- The same for a step, which adds no members: of a plain flow, only the fields of a step.
function M.load_step(tag, id)
  local f = M.at(tag, id)
  local found = redis.call("HMGET", f.core, "is_plain", "public_flow_state", "node_count", "moving_count",
    "members_completed")
  if not found[1] then return M.fill(f) end
  f.is_plain, f.public_flow_state, f.node_count = found[1], found[2], found[3] + 0
  f.moving_count, f.members_completed = found[4] + 0, found[5] + 0
  return as_stored(f)
end

-- A new flow cannot take the id of a hidden one. A refusal or nil.
function M.check_taken(f)
  if tenant.hides(f.namespace) then return reply.invalid("flow_id", "an id that is not taken", f.id) end
end

-- The flow of a core key, or nil and a refusal.
function M.find(core, id)
  local f, refusal = M.of_key(core, id)
  if refusal then return nil, refusal end
  if not M.named(f) then return nil, reply.refuse("flow_not_found") end
  return f
end

-- A refusal when the flow takes no more members and edges. A flow that was built piece by piece
-- reopens when it grows.
function M.check_growth(f)
  if not M.has_ended(f) or not (f.sealed or M.is_closed(f)) then return nil end
  return reply.refuse("flow_already_terminal", f.public_flow_state)
end

function M.key(f, name) return "ff:flow:" .. f.tag .. ":" .. f.id .. ":" .. name end

-- The key of one member within the flow.
function M.member_key(f, name, uuid)
  return "ff:flow:" .. f.tag .. ":" .. f.id .. ":" .. name .. ":" .. f.tag .. ":" .. uuid
end

function M.has_ended(f) return TERMINAL[f.public_flow_state] == true end

-- It ended before its members: their ends have no further effect.
function M.is_closed(f)
  return f.public_flow_state == "cancelled" or f.public_flow_state == "failed" and f.failure_policy == "fail_fast"
end

-- Mark a field as changed or dropped.
function M.mark(f, name)
  f.changed = f.changed or {}
  f.changed[name] = true
end

-- Change a field; the end of the step writes it. nil drops it.
function M.set(f, name, value)
  if f[name] == value then return end
  f[name] = value
  M.mark(f, name)
  if f.is_plain and not PLAIN[name] then M.set(f, "is_plain", nil) end
end

-- Add to a count. The two counts that nearly every step changes need no mark.
function M.add(f, name, by)
  if name == "moving_count" or name == "members_completed" then
    f[name] = f[name] + by
  elseif by ~= 0 then
    M.set(f, name, f[name] + by)
  end
end

return M
