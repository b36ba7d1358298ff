-- Permits: slots of a quota that counts nothing but what runs at once. Such a slot need not go back to the quota's own
-- partition when its holder stops: it passes on to the next that waits for it here, in the same step, and to the quota
-- it stays the slot of whoever was admitted with it. After a while it goes back, so that other partitions get a turn.
-- @uses digits
local M = {}

local PASSED_ON_MS = 1000

-- Who runs on a slot that was another's, by that one's id and ticket: nobody could tell from the owner's record.
function M.key(tag) return "ff:part:" .. tag .. ":permits" end

function M.name(owner, ticket) return owner .. "#" .. digits.of(ticket) end

-- {since, ticket, owner, limit, is_passed}; nil when it holds none that may pass on.
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

-- The record says which slot it runs on; it is about to run.
function M.give(x, slot)
  x.permit = M.text(slot)
  redis.call("HSET", x.core, "permit", x.permit)
end

-- The same of a slot that was another's, for a record that says so already.
function M.take_over(x, slot)
  x.permit = M.text(slot)
  redis.call("HSET", M.key(x.tag), M.name(slot.owner, slot.ticket), x.id)
end

-- Keep it for the next claim of this call; false when there is none to come, or it has passed on for long enough.
function M.keep(x, slot, now)
  local collected = x.writes or x.beside
  if not collected or not collected.permits or now - slot.since >= PASSED_ON_MS then return false end
  slot.lane_id = x.lane_id
  collected.permits[#collected.permits + 1] = slot
  return true
end

-- It goes back to its quota.
function M.end_passing(tag, slot)
  if slot.is_passed then redis.call("HDEL", M.key(tag), M.name(slot.owner, slot.ticket)) end
end

return M
