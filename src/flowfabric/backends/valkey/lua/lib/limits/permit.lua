-- Permits: slots of a quota that limits only concurrency. Such a slot need not return to the
-- partition of the quota when its holder stops: it passes to the next waiting execution here, in
-- the same step. For the quota it stays the slot of the execution that was admitted. After a while
-- it returns, so that other partitions get a turn.
-- @uses digits
local M = {}

local PASSED_ON_MS = 1000

-- The executions that run on the slot of another, by its id and ticket; the record of the owner
-- does not tell.
function M.key(tag) return "ff:part:" .. tag .. ":permits" end

function M.name(owner, ticket) return owner .. "#" .. digits.of(ticket) end

-- {since, ticket, owner, limit, is_passed}; nil when it holds no permit.
function M.read(x)
  if not x.permit then return nil end
  local since, ticket, owner, limit = x.permit:match("^(%d+) (%d+) (%S+) (.+)$")
  return {
    since = tonumber(since), ticket = tonumber(ticket), owner = owner, limit = limit, is_passed = owner ~= x.id,
  }
end

function M.text(slot)
  return table.concat({digits.of(slot.since), digits.of(slot.ticket), slot.owner, slot.limit}, " ")
end

-- Note in the record which slot it is about to run on.
function M.give(x, slot)
  x.permit = M.text(slot)
  redis.call("HSET", x.core, "permit", x.permit)
end

-- The same for the slot of another execution; the record already has the permit.
function M.take_over(x, slot)
  x.permit = M.text(slot)
  redis.call("HSET", M.key(x.tag), M.name(slot.owner, slot.ticket), x.id)
end

-- Keep it for the next claim of this call; false when no claim follows, or the permit has passed on
-- for long enough.
function M.keep(x, slot, now)
  local collected = x.writes or x.beside
  if not collected or not collected.permits or now - slot.since >= PASSED_ON_MS then return false end
  slot.lane_id = x.lane_id
  collected.permits[#collected.permits + 1] = slot
  return true
end

-- It returns to its quota.
function M.end_passing(tag, slot)
  if slot.is_passed then redis.call("HDEL", M.key(tag), M.name(slot.owner, slot.ticket)) end
end

return M
