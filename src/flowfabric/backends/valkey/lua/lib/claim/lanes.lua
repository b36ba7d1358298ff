-- The settings of a lane in one partition: its state, its concurrency, and how age counts against
-- priority.
-- @uses index_key names wakeup
local M = {}

function M.config_key(tag, lane) return "ff:lane:" .. tag .. ":" .. names.part(lane) .. ":config" end

-- The partition and the lane whose settings a key holds; nil for another key.
function M.of_config_key(key)
  local tag, part = key:match("^ff:lane:(%b{}):([^:]+):config$")
  local lane = tag and names.read(part)
  if lane then return tag, lane end
end

local USUAL = {state = "active"}

local function read(x)
  local found = redis.call("HMGET", M.config_key(x.tag, x.lane_id), "state", "share", "key_concurrency",
    "ageing_ms_per_priority", "shared_queue")
  if not (found[1] or found[2] or found[3] or found[4] or found[5]) then return USUAL end
  return {
    state = found[1] or "active", share = tonumber(found[2]), key_concurrency = tonumber(found[3]),
    ageing_ms_per_priority = tonumber(found[4]), shared_queue = found[5] == "1",
  }
end

-- The lane is known to have no settings.
function M.have_none(x) x.lane_settings = USUAL end

-- Read once a batch, or once an execution.
function M.settings(x)
  local collected = x.writes or x.beside
  if not collected then
    x.lane_settings = x.lane_settings or read(x)
    return x.lane_settings
  end
  local known = collected.lanes[x.lane_id]
  if not known then
    known = read(x)
    collected.lanes[x.lane_id] = known
  end
  return known
end

-- How many more of the lane may start in this partition; nil without a limit.
function M.free(x)
  local share = M.settings(x).share
  return share and share - redis.call("ZCARD", index_key.lane(x, "active"))
end

-- After `count` executions stopped: announce a lane that was full and has room again.
function M.stopped(x, count)
  local settings = M.settings(x)
  if not settings.share or settings.state == "paused" or settings.state == "disabled" then return end
  local free = M.free(x)
  if free > 0 and free <= count then wakeup.announce(x.tag, x.lane_id) end
end

return M
