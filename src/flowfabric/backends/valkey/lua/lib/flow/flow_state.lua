-- The state of a flow: the one rule that derives it (D24), and the write of all changes of a step.
-- @uses digits event flow
local M = {}

-- How many members have not ended.
local function left(f)
  return f.node_count - f.members_completed - f.members_failed - f.members_cancelled - f.members_expired
    - f.members_skipped
end

-- open: no member has started. running: a member runs or may start. blocked: no member may start,
-- and some are left.
local function derived(f)
  if flow.has_ended(f) then return f.public_flow_state end
  if left(f) == 0 and f.node_count > 0 and f.work_count == 0 and not f.staged then
    return f.failure_count > 0 and "failed" or "completed"
  end
  if f.public_flow_state == "open" and not f.is_started then return "open" end
  return f.moving_count > 0 and "running" or "blocked"
end

-- The fields to write and to drop; the lists serve one flow after the other.
local fields, gone = {"last_mutation_at"}, {}

-- Add the marked fields. Answers the lengths of both lists.
local function marked(f, n)
  local count = 0
  for name in pairs(f.changed) do
    local value = f[name]
    if value == nil then
      count = count + 1
      gone[count] = name
    else
      fields[n + 1], fields[n + 2], n = name, type(value) == "number" and digits.of(value) or value, n + 2
    end
  end
  f.changed = nil
  return n, count
end

local function save(f, now)
  local n, count = 2, 0
  if f.members_completed ~= f.stored_completed then
    fields[3], fields[4], n = "members_completed", digits.of(f.members_completed), 4
  end
  if f.moving_count ~= f.stored_moving then
    fields[n + 1], fields[n + 2], n = "moving_count", digits.of(f.moving_count), n + 2
  end
  if f.changed then n, count = marked(f, n) end
  if n + count == 2 then return end
  f.stored_completed, f.stored_moving, fields[2] = f.members_completed, f.moving_count, digits.of(now)
  redis.call("HSET", f.core, unpack(fields, 1, n))
  if count > 0 then redis.call("HDEL", f.core, unpack(gone, 1, count)) end
end

-- Derive its state and write all changes. Answers whether the flow has ended with this step. Its
-- end and its reopening are events. collected: the batch that it is part of, if any.
function M.settle(f, now, collected)
  local goes_on = f.is_plain and f.public_flow_state == "running" and f.moving_count > 0 and not f.is_reopened
  if goes_on then return save(f, now) end  -- the common case
  if f.is_reopened then
    event.append_flow(f, "flow_reopened", now, collected)
    f.is_reopened = nil
  end
  flow.set(f, "public_flow_state", derived(f))
  local has_ended = flow.has_ended(f)
  local ends = has_ended and not f.was_ended
  f.was_ended = has_ended
  if ends then
    flow.set(f, "ended_at", digits.of(now))
    event.append_flow(f, "flow_" .. f.public_flow_state, now, collected)
  end
  save(f, now)
  return ends
end

-- Reopen an ended flow: a member runs again, or a new one was added.
function M.reopen(f)
  flow.set(f, "public_flow_state", "running")
  f.ended_at, f.was_ended, f.is_reopened = nil, false, true
  flow.mark(f, "ended_at")
end

return M
