-- Announce work and free lane slots to workers: at once, or for a batch when it is written.
-- @uses lanes wakeup
local M = {}

-- The execution has just entered the queue at `key`. If the queue was empty it is announced, at
-- once or after it was offered to parked claims.
function M.entered(x, key)
  if x.writes then
    x.writes.wake[key] = x
  elseif x.wakes_later then
    x.entered = key
  else
    wakeup.added(key, 1, x.tag, x.lane_id, x.required_capabilities)
  end
end

-- The execution has just stopped running.
function M.stopped(x)
  local collected = x.writes
  if not collected then return lanes.stopped(x, 1) end
  local stopped = collected.stopped[x.lane_id] or {x = x, count = 0}
  stopped.count = stopped.count + (x.ids and #x.ids or 1)
  collected.stopped[x.lane_id] = stopped
end

-- Announce lanes that have room again.
function M.of_room(collected)
  for _, stopped in pairs(collected.stopped) do lanes.stopped(stopped.x, stopped.count) end
end

-- Announce queues that were empty.
function M.of_work(collected)
  for key, x in pairs(collected.wake) do
    wakeup.added(key, collected.zadd[key].n / 2, x.tag, x.lane_id, x.required_capabilities)
  end
end

return M
