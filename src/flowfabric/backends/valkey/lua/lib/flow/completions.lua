-- Publishes the ends of flow members on a channel of the public wire. A batch checks once whether a
-- client listens.
local M = {}

local CHANNEL = "ff:dag:completions"

-- In a cluster, clients may listen at another node. The mode never changes while a server runs.
local is_cluster

local function is_one_of_many()
  if is_cluster == nil then
    local answer = redis.pcall("CLUSTER", "SLOTS")
    is_cluster = not (answer.err and answer.err:find("cluster support disabled", 1, true))
  end
  return is_cluster
end

local function is_heard()
  return is_one_of_many() or redis.call("PUBSUB", "NUMSUB", CHANNEL)[2] > 0 or redis.call("PUBSUB", "NUMPAT") > 0
end

-- Ids need no JSON escapes.
function M.tell(x, outcome)
  local collected = x.writes or x.beside
  if collected then
    if collected.is_heard == nil then collected.is_heard = is_heard() end
    if not collected.is_heard then return end
  end
  redis.call("PUBLISH", CHANNEL,
    '{"execution_id":"' .. x.id .. '","flow_id":"' .. x.flow_id .. '","outcome":"' .. outcome .. '"}')
end

return M
