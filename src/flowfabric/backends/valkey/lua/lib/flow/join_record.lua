-- The join of one downstream: how many of its edges must be satisfied, and how many are. Decided
-- once (D26). A single edge without a policy needs no record until it is impossible; has_joins says
-- whether a flow has any.
-- @uses edge flow
local M = {}

M.VARIANTS = {all_of = true, any_of = true, quorum = true}
M.DISPOSITIONS = {cancel_remaining = true, let_run = true}

function M.key(f, uuid) return flow.member_key(f, "edgegroup", uuid) end

-- Defaults of absent fields; numbers are counts.
local DEFAULTS = {
  n = 0, k = 0, succeeded = 0, failed = 0, skipped = 0, policy_variant = "all_of", group_state = "pending",
}
local ABSENT = {__index = DEFAULTS}

local function read(f, uuid)
  local key = M.key(f, uuid)
  local flat = redis.call("HGETALL", key)
  local g = {f = f, key = key, is_stored = #flat > 0}
  for i = 1, #flat, 2 do
    local name = flat[i]
    g[name] = type(DEFAULTS[name]) == "number" and flat[i + 1] + 0 or flat[i + 1]
  end
  g.has_policy = g.policy_variant ~= nil
  return setmetatable(g, ABSENT)
end

-- The join of a downstream without a record.
function M.new(f, uuid) return setmetatable({f = f, key = M.key(f, uuid), n = 0, group_state = nil}, ABSENT) end

-- The join that an uncounted edge leads to.
function M.of_edge(f, e)
  local g = f.has_joins and read(f, e.down) or M.new(f, e.down)
  if not g.is_stored then g.n = 1 end
  return g
end

-- The join of a downstream; one without edges is an empty all-of.
function M.load(f, uuid)
  local g = read(f, uuid)
  if g.is_stored then return g end
  local e = edge.page(f, edge.in_key(f, uuid), 0, 1)[1]
  if e then g.n = 1 end
  if e and e.state == "satisfied" then g.succeeded, g.group_state = 1, "satisfied" end
  return g
end

-- Some fields, names and values in turn.
function M.write(g, ...)
  if not g.is_stored then
    g.is_stored = true
    flow.set(g.f, "has_joins", "1")
  end
  redis.call("HSET", g.key, ...)
end

-- Add `count` edges before they are written. A decided join reopens.
function M.grow(g, count)
  g.n = g.n + count
  if g.n == 1 and not g.is_stored then return end
  if g.group_state == "pending" then return M.write(g, "n", g.n) end
  g.group_state = "pending"
  M.write(g, "n", g.n, "succeeded", g.succeeded, "group_state", g.group_state)
end

local function needed(g)
  if g.policy_variant == "all_of" then return g.n end
  return g.policy_variant == "any_of" and 1 or g.k
end

-- How many edges are open.
function M.open_count(g) return g.n - g.succeeded - g.failed - g.skipped end

-- With fewer edges than must be satisfied the join is incomplete and stays pending.
function M.decide(g)
  local k = needed(g)
  if g.n < k then return "pending" end
  if g.succeeded >= k then return "satisfied" end
  if g.failed + g.skipped > g.n - k then return "impossible" end
  return "pending"
end

-- Count a resolved edge. Answers the new state of the join if this decided it; otherwise nil.
function M.count(g, counter, now)
  g[counter] = g[counter] + 1
  local was_pending = g.group_state == "pending"
  if was_pending then g.group_state = M.decide(g) end
  if not was_pending or g.group_state == "pending" then
    M.write(g, counter, g[counter])
    return nil
  end
  if g.is_stored or g.group_state == "impossible" then
    M.write(g, "n", g.n, counter, g[counter], "group_state", g.group_state, "satisfied_at", now)
  end
  return g.group_state
end

-- Take back a resolved edge. Answers whether the join is open again.
function M.uncount(g, counter)
  g[counter] = math.max(0, g[counter] - 1)
  g.group_state = M.decide(g)
  if g.is_stored then M.write(g, counter, g[counter], "group_state", g.group_state) end
  return g.group_state == "pending"
end

-- Does the decision also cancel the remaining upstreams?
function M.cancels_rest(g) return g.policy_variant ~= "all_of" and g.on_satisfied == "cancel_remaining" end

-- Is there an open join?
function M.is_open(f, uuid)
  local g = M.load(f, uuid)
  return g.n > 0 and g.group_state == "pending"
end

return M
