-- Guards of a claim besides the grant: the lane, the flow and the concurrency key (D22, G9).
-- @uses key_index lanes reply
local M = {}

-- nil, or the reason why the lane starts nothing now. A draining lane resumes started executions
-- and starts no new ones.
function M.lane_obstacle(x, is_resume)
  local lane = lanes.settings(x).state
  if lane == "paused" or lane == "disabled" or (lane == "draining" and not is_resume) then return "lane_" .. lane end
end

local CLOSED = {cancelled = true, failed = true}

-- The state of the flow, or of a closed flow around it.
local function flow_state(tag, flow_id)
  local found = redis.call("HMGET", "ff:flow:" .. tag .. ":" .. flow_id .. ":core", "public_flow_state",
    "parent_execution_id")
  local state, parent = found[1], found[2]
  if not parent or CLOSED[state] then return state end
  local outer_id = redis.call("HGET", "ff:exec:" .. tag .. ":" .. parent .. ":core", "flow_id")
  local outer = outer_id and flow_state(tag, outer_id)
  return CLOSED[outer] and outer or state
end

-- Members of a cancelled or failed flow must not start (G9), nor members of a flow inside it.
-- Claims end no flow, so a batch reads each flow once.
function M.flow_obstacle(x)
  if not x.flow_id then return nil end
  local known = x.writes and x.writes.flow_states or {}
  x.flow_state = known[x.flow_id] or flow_state(x.tag, x.flow_id)
  known[x.flow_id] = x.flow_state
  if CLOSED[x.flow_state] then return "flow_" .. x.flow_state end
end

-- The state of a flow that a step has read, for the claims of the same batch. Only of a plain flow: it is part of no
-- other flow, so nothing else has to be read.
function M.know_flow(collected, f)
  if f.is_plain then collected.flow_states[f.id] = f.public_flow_state end
end

-- nil, or the reason why this execution must not start now.
function M.obstacle(x, is_resume)
  if lanes.settings(x).state == "active" and not x.flow_id then return nil end  -- the common case
  return M.lane_obstacle(x, is_resume) or M.flow_obstacle(x)
end

-- A refusal when the lane, in this partition, or the concurrency key is at its limit. started:
-- executions of the lane that this batch has started and the index does not show yet.
function M.check_limits(x, started)
  local free = lanes.free(x)
  if free and free <= (started or 0) then
    return reply.refuse("concurrency_limit_exceeded", "max_concurrency of lane " .. x.lane_id)
  end
  if x.concurrency_key and key_index.is_full(x) then
    return reply.refuse("concurrency_limit_exceeded", "concurrency_key " .. x.concurrency_key)
  end
end

return M
