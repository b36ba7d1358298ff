-- Replace the content of an execution that has not started: its id, lane and age stay.
-- @uses event grant index key_turns offering record reply tags update
local M = {}

function M.is_open(x) return x.lifecycle_phase == "runnable" and x.attempt_state == "pending_first_attempt" end

-- A blocked execution stays blocked, whatever its new content is.
local function is_held_back(x)
  return x.eligibility_state ~= "eligible_now" and x.eligibility_state ~= "not_eligible_until_time"
    and not x.waits_for_key
end

local function store(key, value)
  if value == "" then redis.call("DEL", key) else redis.call("SET", key, value) end
end

local function store_parts(x, new)
  store(x.base .. ":payload", new.payload)
  store(x.base .. ":policy", new.policy)
  tags.clear(x)
  tags.write(x, new.labels)
  index.clear_deadline(x)
  if new.deadline then index.set_deadline(x, new.deadline) end
end

local function new_state(x, new, now, set)
  if is_held_back(x) then
    if x.blocking_detail then set[1], set[2] = "blocking_detail", x.blocking_detail end
    return {
      lifecycle_phase = x.lifecycle_phase, eligibility_state = x.eligibility_state, blocking_reason = x.blocking_reason,
    }
  end
  if x.concurrency_key and new.state.eligibility_state == "eligible_now" then
    return key_turns.admit(x, now, new.state, set)
  end
  return new.state
end

-- x writes at once. A grant that is out was for the old content.
function M.apply(x, new, now)
  local before = {
    tag = x.tag, lane_id = x.lane_id, namespace = x.namespace, concurrency_key = x.concurrency_key, beside = x.beside,
  }
  local set = {}
  if x.admission then offering.drop(x, now) end
  index.leave(x)
  grant.consume(x)
  update.write(x, now, new.fields)
  update.change(x, now, new_state(x, new, now, set), set)
  store_parts(x, new)
  index.enter(x, now)
  event.append(x, "replaced", now)
  if before.concurrency_key then key_turns.pass_on(before, now) end
  if x.concurrency_key then key_turns.pass_on(x, now) end
  return reply.replaced(x.id, record.public_state(x))
end

return M
