-- The keys of the indexes: of a partition, of a lane, of a worker. A batch names the same few over and over; it
-- remembers them.
local M = {}

local function partition_key(x, name) return "ff:idx:" .. x.tag .. ":" .. name end

local function lane_key(x, name) return "ff:idx:" .. x.tag .. ":lane:" .. x.lane_id .. ":" .. name end

local function worker_key(x, worker) return "ff:idx:" .. x.tag .. ":worker:" .. worker .. ":leases" end

local function remembered(x, group, name, make)
  if not x.writes then return make(x, name) end
  local names = x.writes.names[group]
  if not names then
    names = {}
    x.writes.names[group] = names
  end
  local key = names[name]
  if not key then
    key = make(x, name)
    names[name] = key
  end
  return key
end

-- A lane may have any name, so the other two groups have numbers.
local PARTITION, WORKER = 1, 2

function M.partition(x, name) return remembered(x, PARTITION, name, partition_key) end

function M.lane(x, name) return remembered(x, x.lane_id, name, lane_key) end

function M.worker_leases(x) return remembered(x, WORKER, x.current_worker_instance_id, worker_key) end

return M
