-- Turns within a concurrency key: as many executions are queued as may run, the best of them; the
-- others wait beside the queue. When one execution of the key moves, the next follow in the same
-- step.
-- @uses event index key_index order record update vectors
local M = {}

-- A step promotes at most this many; the rest follows with the next step, or when the lane is
-- configured.
local AT_ONCE = 100

local QUEUED, WAITING = vectors.KEPT.WAITING, vectors.KEPT.BLOCKED_BY_QUOTA

local function move(x, now, vector, set, name, outcome)
  index.leave(x)
  update.change(x, now, vector, set)
  index.enter(x, now)
  event.append(x, name, now, outcome)
end

local function explain(x, set)
  local n = #set
  set[n + 1], set[n + 2] = "blocking_detail", "others of concurrency key " .. x.concurrency_key .. " come first"
  set[n + 3], set[n + 4] = "waits_for_key", "1"
  return set
end

-- Take an execution out of the queue until its key has room.
function M.hold(x, now) move(x, now, WAITING, explain(x, {}), "blocked", WAITING.blocking_reason) end

-- Another execution of the same key; its writes belong to the same batch, if any.
local function another(x, id)
  local other = record.found(record.at("ff:exec:" .. x.tag .. ":" .. id .. ":core"))
  if other then other.beside = x.beside end
  return other
end

-- Does it come before the last queued execution of its group? Then that one makes room.
local function displaces(x, now, needs, score)
  local id, last = key_index.last(x, needs)
  if not id or last <= score then return false end
  local other = another(x, id)
  if other then M.hold(other, now) end
  return other ~= nil
end

-- The state that an eligible execution really enters: queued, or waiting for its key, which `set`
-- then explains. x: its names, key and score; it is in no index.
function M.admit(x, now, wanted, set)
  local needs, score = key_index.needs(x), tonumber(order.score(x))
  if key_index.room(x, needs) > 0 then
    local best = key_index.best_score(x, needs)
    if not best or score <= best then return wanted end
  elseif displaces(x, now, needs, score) then
    return wanted
  end
  explain(x, set)
  return {
    lifecycle_phase = WAITING.lifecycle_phase, eligibility_state = WAITING.eligibility_state,
    blocking_reason = WAITING.blocking_reason, attempt_state = wanted.attempt_state,
  }
end

local function let_go(x, now, needs, id)
  local other = another(x, id)
  if other and other.waits_for_key then
    move(other, now, QUEUED, nil, "unblocked")
  else
    key_index.drop(x, needs, id)
  end
end

-- Queue the next executions of the key, best first, while there is room. Entries that do not wait
-- any more are dropped.
function M.pass_on(x, now)
  for _, needs in ipairs(key_index.groups(x)) do
    local left = AT_ONCE
    while left > 0 do
      local ids = key_index.next(x, needs, math.min(key_index.room(x, needs), left))
      if #ids == 0 then break end
      for _, id in ipairs(ids) do let_go(x, now, needs, id) end
      left = left - #ids
    end
  end
end

return M
