-- Permits: slots of a quota that counts nothing but what runs at once. Such a slot need not go back to the quota's own
-- partition when its holder stops: it passes on to the next that waits for it here, in the same step, and to the quota
-- it stays the slot of whoever was admitted with it. After a while it goes back, so that other partitions get a turn.
-- @uses digits
local M = {}

local PASSED_ON_MS = 1000

-- {since, ticket, owner, limit}; nil when it holds none that may pass on.
function M.read(x)
  if not x.permit then return nil end
  local since, ticket, owner, limit = x.permit:match("^(%d+) (%d+) (%S+) (.+)$")
  return {since = tonumber(since), ticket = tonumber(ticket), owner = owner, limit = limit}
end

-- The record says which slot it runs on; it is about to run.
function M.give(x, permit)
  x.permit = table.concat({digits.of(permit.since), digits.of(permit.ticket), permit.owner, permit.limit}, " ")
  redis.call("HSET", x.core, "permit", x.permit)
end

-- Keep it for the next claim of this call; false when there is none to come, or it has passed on for long enough.
function M.keep(x, permit, now)
  local collected = x.writes or x.beside
  if not collected or not collected.permits or now - permit.since >= PASSED_ON_MS then return false end
  permit.lane_id = x.lane_id
  collected.permits[#collected.permits + 1] = permit
  return true
end

return M
