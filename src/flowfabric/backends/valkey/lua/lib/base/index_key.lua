-- The keys of the indexes: of a partition, of a lane, of a worker. The same few are used all the
-- time, so they are cached, up to a bound.
-- @uses names
local M = {}

local MOST = 10000

-- By partition, and for lanes also by lane: tables of keys by name.
local partitions, lanes, count = {}, {}, 0

-- Names from callers are unbounded; they contain a colon and are not cached. The blocked queues are
-- few.
local BY_NAME = {
  __index = function(keys, name)
    local key = keys[1] .. name
    if not name:find(":", 1, true) or name:find("^blocked:") then
      keys[name], count = key, count + 1
    end
    return key
  end,
}

-- Keys by name: each is the prefix and its name.
local function under(prefix)
  if count > MOST then partitions, lanes, count = {}, {}, 0 end
  return setmetatable({prefix}, BY_NAME)
end

function M.of_partition(x)
  local keys = partitions[x.tag]
  if not keys then
    keys = under("ff:idx:" .. x.tag .. ":")
    partitions[x.tag] = keys
  end
  return keys
end

function M.of_lane(x)
  local of_tag = lanes[x.tag]
  local keys = of_tag and of_tag[x.lane_id]
  if keys then return keys end
  keys = under("ff:idx:" .. x.tag .. ":lane:" .. names.part(x.lane_id) .. ":")
  lanes[x.tag] = lanes[x.tag] or {}
  lanes[x.tag][x.lane_id] = keys
  return keys
end

function M.partition(x, name) return M.of_partition(x)[name] end

function M.lane(x, name) return M.of_lane(x)[name] end

-- The index of executions with a tag.
function M.label(x, key, value) return M.of_partition(x)["tag:" .. names.part(key) .. "=" .. value] end

-- The same worker is asked for many times in a row.
local tag, worker, leases

function M.worker_leases(x)
  if x.tag ~= tag or x.current_worker_instance_id ~= worker then
    tag, worker = x.tag, x.current_worker_instance_id
    leases = "ff:idx:" .. tag .. ":worker:" .. names.part(worker) .. ":leases"
  end
  return leases
end

return M
