-- Telling workers of work that came and of room that there is: at once, or for a batch when it is written.
-- @uses lanes wakeup
local M = {}

-- The execution has just entered the queue at `key`: workers are told if it was empty, at once or when it was offered.
function M.entered(x, key)
  if x.writes then
    x.writes.wake[key] = x
  elseif x.wakes_later then
    x.entered = key
  else
    wakeup.added(key, 1, x.tag, x.lane_id, x.required_capabilities)
  end
end

-- The execution has just left the running ones of its lane.
function M.stopped(x)
  local collected = x.writes
  if not collected then return lanes.stopped(x, 1) end
  local stopped = collected.stopped[x.lane_id] or {x = x, count = 0}
  stopped.count = stopped.count + (x.ids and #x.ids or 1)
  collected.stopped[x.lane_id] = stopped
end

-- Lanes that have room again.
function M.of_room(collected)
  for _, stopped in pairs(collected.stopped) do lanes.stopped(stopped.x, stopped.count) end
end

-- Queues that were empty.
function M.of_work(collected)
  for key, x in pairs(collected.wake) do
    wakeup.added(key, collected.zadd[key].n / 2, x.tag, x.lane_id, x.required_capabilities)
  end
end

return M
