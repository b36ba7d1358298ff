-- The join of one downstream: how many of its edges must be satisfied, and how many are. Decided once (D26).
-- @uses flow
local M = {}

M.VARIANTS = {all_of = true, any_of = true, quorum = true}
M.DISPOSITIONS = {cancel_remaining = true, let_run = true}

function M.key(f, uuid) return flow.key(f, "edgegroup:" .. f.tag .. ":" .. uuid) end

-- The join of a downstream; one without edges is an empty all-of.
function M.load(f, uuid)
  local key = M.key(f, uuid)
  local flat = redis.call("HGETALL", key)
  local g = {key = key, exists = #flat > 0}
  for i = 1, #flat, 2 do g[flat[i]] = flat[i + 1] end
  g.has_policy, g.policy_variant = g.policy_variant ~= nil, g.policy_variant or "all_of"
  g.k, g.n = tonumber(g.k or 0), tonumber(g.n or 0)
  g.succeeded, g.failed, g.skipped = tonumber(g.succeeded or 0), tonumber(g.failed or 0), tonumber(g.skipped or 0)
  g.group_state = g.group_state or "pending"
  return g
end

-- Some fields, names and values in turn.
function M.write(g, ...) redis.call("HSET", g.key, ...) end

local function needed(g)
  if g.policy_variant == "all_of" then return g.n end
  return g.policy_variant == "any_of" and 1 or g.k
end

-- How many edges are open.
function M.open_count(g) return g.n - g.succeeded - g.failed - g.skipped end

-- While there are fewer edges than must be satisfied the join is not complete, and nothing is certain.
function M.decide(g)
  local k = needed(g)
  if g.n < k then return "pending" end
  if g.succeeded >= k then return "satisfied" end
  if g.failed + g.skipped > g.n - k then return "impossible" end
  return "pending"
end

-- Count one more resolved edge. Answers what the join has become with it; nil when it was decided before or is not yet.
function M.count(g, counter, now)
  g[counter] = g[counter] + 1
  local was_pending = g.group_state == "pending"
  if was_pending then g.group_state = M.decide(g) end
  if not was_pending or g.group_state == "pending" then
    M.write(g, counter, g[counter])
    return nil
  end
  M.write(g, counter, g[counter], "group_state", g.group_state, "satisfied_at", now)
  return g.group_state
end

-- Take back one resolved edge. Answers whether the join is open with it.
function M.uncount(g, counter)
  g[counter] = math.max(0, g[counter] - 1)
  g.group_state = M.decide(g)
  M.write(g, counter, g[counter], "group_state", g.group_state)
  return g.group_state == "pending"
end

-- Does the end of the join also end those that are still on their way to it?
function M.cancels_rest(g) return g.policy_variant ~= "all_of" and g.on_satisfied == "cancel_remaining" end

-- Is there something to wait for?
function M.is_open(f, uuid)
  local found = redis.call("HMGET", M.key(f, uuid), "n", "group_state")
  return found[1] and found[1] ~= "0" and (found[2] or "pending") == "pending"
end

return M
