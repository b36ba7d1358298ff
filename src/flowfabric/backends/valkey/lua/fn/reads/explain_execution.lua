--- Read everything that decides whether an execution runs, in one step.
-- @keys    core
-- @args    execution_id:id
-- @reply   core facts
-- @errors  execution_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    admission clock dependency grant index index_key key_index lanes limit_queue limit_scopes offering record
--          reply tenant
local function add(facts, name, value)
  if value == nil or value == false then return end
  facts[#facts + 1] = name
  facts[#facts + 1] = tostring(value)
end

local function add_lane(facts, x)
  local settings = lanes.settings(x)
  add(facts, "lane_state", settings.state)
  add(facts, "lane_share", settings.share)
  add(facts, "lane_max_concurrency", redis.call("HGET", lanes.config_key(x.tag, x.lane_id), "max_concurrency"))
  add(facts, "lane_running", redis.call("ZCARD", index_key.lane(x, "active")))
end

local function add_key(facts, x)
  if not x.concurrency_key then return end
  add(facts, "key_limit", key_index.limit(x))
  add(facts, "key_running", key_index.running(x))
  add(facts, "key_ahead", key_index.waiting_ahead(x))
end

-- Its position in its queue, and the first execution there.
local function add_queue(facts, x)
  if x.lifecycle_phase ~= "runnable" or x.eligibility_state ~= "eligible_now" then return end
  local key = index.queue_key(x)
  add(facts, "ahead", redis.call("ZRANK", key, x.id))
  local id = redis.call("ZRANGE", key, 0, 0)[1]
  -- Every caller gets the number of others in the lane; only callers with access get their ids.
  if id and (id == x.id or not tenant.scope or record.load("ff:exec:" .. x.tag .. ":" .. id .. ":core")) then
    add(facts, "first_in_queue", id)
  end
end

local function add_grant(facts, x, now)
  local held = redis.call("HMGET", grant.key(x), "worker_instance_id", "grant_expires_at")
  if not held[2] or tonumber(held[2]) < now then return end
  add(facts, "granted_to", held[1])
  add(facts, "grant_expires_at", held[2])
end

-- Its limits, the one it waits for with its position there, and the open offer.
local function add_limits(facts, x, now)
  local limits, offer = limit_scopes.of(x), offering.read(x)
  if limits then
    add(facts, "budgets", table.concat(limits.budgets, ","))
    add(facts, "quotas", table.concat(limits.quotas, ","))
  end
  if x.waits_for then
    add(facts, "waits_for", x.waits_for)
    add(facts, "limit_ahead", redis.call("ZRANK", limit_queue.key(x.tag, x.waits_for), x.id))
    add(facts, "limit_look_at", redis.call("ZSCORE", limit_queue.looks_key(x.tag), x.waits_for))
  end
  if offer and x.lifecycle_phase == "runnable" and offer.until_ms >= now then
    add(facts, "offered_to", offer.worker_instance_id)
    add(facts, "offer_until", offer.until_ms)
  end
end

return function(K, _)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end

  local facts = {}
  add(facts, "now_ms", now)
  add_lane(facts, x)
  add_key(facts, x)
  add_queue(facts, x)
  add_grant(facts, x, now)
  add_limits(facts, x, now)
  add(facts, "open_dependencies", dependency.open_count(x))
  add(facts, "flow_obstacle", admission.flow_obstacle(x))
  return {1, "OK", redis.call("HGETALL", K.core), facts}
end
