-- Slots of a quota. An admitted execution has a ticket with a slot of its own, and a release frees
-- only the slot of its own ticket. So calls may repeat and come late: a released ticket is never
-- admitted again.
-- @uses digits quota
local M = {}

-- How long after its window the list of starts may stay.
local SPARE_MS = 60000
-- Markers of released tickets. One that had a slot is remembered while the same call may still
-- arrive; one that had none until every admission of it is refused as late, whatever the clocks of
-- other nodes say.
local RELEASED, BRIEFLY_MS, LATE_MS, LONG_MS = "!", 30000, 600000, 900000
-- Smaller tickets are no timestamps: an external scheduler has numbered them.
local FIRST_TIME = 1000000000000

-- The holder of a slot: an execution with or without a ticket.
local function holder(id, ticket) return ticket > 0 and id .. "#" .. digits.of(ticket) or id end

local function guard(q, who) return q.key .. ":admitted:" .. who end

local function is_released(found) return found ~= false and found:sub(1, 1) == RELEASED end

local function is_late(ticket, now) return ticket >= FIRST_TIME and now - ticket > LATE_MS end

local function record(q, suffix, who, ticket, is_resume, now)
  local key = quota.window(q, suffix)
  if q.rate > 0 and not is_resume then
    redis.call("ZADD", key, digits.of(now), who)
    redis.call("PEXPIRE", key, 2 * q.window_ms + SPARE_MS)
  end
  -- A holder without a ticket is never released, so it must not stay where no slots are counted.
  if q.cap == 0 and ticket == 0 then return redis.call("SET", guard(q, who), "", "PX", q.window_ms) end
  redis.call("SET", guard(q, who), suffix)
  redis.call("SADD", quota.admitted(q, suffix), who)
  quota.note_counted(q, suffix)
end

-- Admit an execution, or answer why not and how long to wait. is_resume: it resumes, so its start
-- is counted already.
function M.admit(q, suffix, id, ticket, is_resume, now)
  local who = holder(id, ticket)
  local found = redis.call("GET", guard(q, who))
  if is_released(found) or (not found and is_late(ticket, now)) then return "RELEASED" end
  if found then return "ALREADY_ADMITTED" end
  local wait = not is_resume and quota.wait_for_window(q, suffix, now)
  if wait then return "RATE_EXCEEDED", wait end
  if q.cap > 0 and redis.call("SCARD", quota.admitted(q, suffix)) >= q.cap then return "CONCURRENCY_EXCEEDED" end
  record(q, suffix, who, ticket, is_resume, now)
  return "ADMITTED"
end

-- Mark a ticket as released and return its suffix, or false. A repeated release returns the same and true.
local function close(q, who)
  local key = guard(q, who)
  local found = redis.call("GET", key)
  if is_released(found) then return found:sub(2), true end
  redis.call("SET", key, RELEASED .. (found or ""), "PX", found and BRIEFLY_MS or LONG_MS)
  return found, false
end

-- The same for executions that a scheduler without tickets has admitted.
local function close_plain(q, id)
  local found = redis.call("GET", guard(q, id))
  if found then redis.call("DEL", guard(q, id)) end
  return found
end

-- Release what this ticket has taken; nil when it has nothing, else the suffix of its counts.
-- is_unused: it has not started, so its place in the window is free again. listed: the suffix it
-- was found under, for a release by name.
function M.release(q, id, ticket, is_unused, listed)
  local who, suffix, is_again = holder(id, ticket), nil, nil
  if ticket > 0 then suffix, is_again = close(q, who) end
  if not suffix and (ticket == 0 or not listed) then
    suffix = close_plain(q, id)
    if suffix then who = id end
  end
  if suffix == "1" then suffix = "" end  -- what other programs write
  suffix = listed or suffix
  if not suffix then return nil end
  if is_unused then redis.call("ZREM", quota.window(q, suffix), who) end
  local had_slot = redis.call("SREM", quota.admitted(q, suffix), who) == 1
  return (had_slot or not (is_again or listed)) and suffix or nil
end

-- The next suffix with slots after one; nil at the end. Empty ones are removed, up to a limit.
function M.next_counted(q, after)
  for _, suffix in ipairs(redis.call("ZRANGE", quota.counted(q), "(" .. after, "+", "BYLEX", "LIMIT", 0, 100)) do
    if redis.call("EXISTS", quota.admitted(q, suffix)) == 1 then return suffix end
    redis.call("ZREM", quota.counted(q), suffix)
  end
end

return M
