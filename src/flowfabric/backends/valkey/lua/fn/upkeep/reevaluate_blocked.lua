--- Check blocked executions again, page by page; unblock those whose reason is gone.
-- @keys    partition
-- @args    from_lane from_key after_score after_id limit:pos *offers
-- @reply   checked unblocked lane key score id
-- @errors  invalid_input
-- @events  unblocked
-- @repeat  safe
-- @uses    admission batch capability clock dependency index_key index_scan lanes listing promotion record reply
--          writes
local STATES = {
  ["blocked:lane_state"] = "blocked_by_lane_state", ["blocked:route"] = "blocked_by_route",
  ["blocked:dependencies"] = "blocked_by_dependencies",
}

-- In a lane with a shared queue, other schedulers block executions that one of their workers cannot run. Another
-- worker may be able to, so they return after this time.
local PARKED_MS = 5000

-- The offers of live workers: lines of capabilities and lanes, one text per kind of worker.
local function read_offers(texts)
  local offers = {}
  for i, text in ipairs(texts) do
    local lanes, capabilities = {}, text:match("^[^\n]*")
    for lane in text:sub(#capabilities + 1):gmatch("[^\n]+") do lanes[lane] = true end
    offers[i] = {capabilities = capabilities, lanes = lanes}
  end
  return offers
end

local function is_offered(offers, x)
  for _, offer in ipairs(offers) do
    if offer.lanes[x.lane_id] and not capability.check(x.required_capabilities, offer.capabilities) then return true end
  end
  return false
end

local function has_been_parked(x, now)
  if not lanes.settings(x).shared_queue then return false end
  return tonumber(redis.call("ZSCORE", index_key.lane(x, "blocked:route"), x.id) or now) + PARKED_MS <= now
end

-- The queues that may hold executions whose reason is gone.
local function queues_of(tag, lane, offers)
  if lane == "" then return {} end
  local x, keys = {tag = tag, lane_id = lane}, {}
  keys[1] = index_key.lane(x, "blocked:dependencies")
  if not admission.lane_obstacle(x, false) then keys[#keys + 1] = index_key.lane(x, "blocked:lane_state") end
  if #offers > 0 or lanes.settings(x).shared_queue then keys[#keys + 1] = index_key.lane(x, "blocked:route") end
  return keys
end

-- Of those with dependencies, only one that returned its lease may have none left: others are incomplete (D19, D23).
local function is_free(x, name, offers, now)
  if not x or x.lifecycle_phase ~= "runnable" or x.eligibility_state ~= STATES[name] then return false end
  if name == "blocked:route" then return is_offered(offers, x) or has_been_parked(x, now) end
  if name == "blocked:lane_state" then return true end
  return x.attempt_state == "attempt_interrupted" and dependency.open_count(x) == 0
end

-- Many members of flows may wait for others: their records are not loaded, and may be broken.
local function may_be_free(x, name)
  return name ~= "blocked:dependencies" or redis.pcall("HGET", x.core, "attempt_state") == "attempt_interrupted"
end

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  refusal = refusal or index_scan.check(A)
  if refusal then return refusal end

  local now, offers, unblocked, collected = clock.now_ms(), read_offers(A.offers), 0, writes.collector()
  local function look(key, ids)
    local name = key:match("blocked:%a+_?%a*$")
    for _, id in ipairs(ids) do
      local x = batch.at(tag, id:sub(#tag + 2), collected)
      if may_be_free(x, name) and is_free(record.found(x), name, offers, now) then
        promotion.release(x, now)
        unblocked = unblocked + 1
      end
    end
  end
  local function queues(each) return queues_of(tag, each, offers) end
  local seen, lane, key, score, id = index_scan.run(tag, A, queues, look)
  writes.flush(collected)

  return reply.ok(seen, unblocked, lane, key, score, id)
end
