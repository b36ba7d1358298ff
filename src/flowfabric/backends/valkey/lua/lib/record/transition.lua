-- A transition is one step: leave the old index, change the record, enter the new index, add a line
-- to the event log.
-- @uses bulk_step event index key_turns limit_release member update
local M = {}

-- An execution with a concurrency key may have to wait for others, and others may follow it.
local function apply_keyed(x, now, step, set, outcome)
  local vector = step.state
  index.leave(x)
  if vector.eligibility_state == "eligible_now" then
    set = set or {}
    vector = key_turns.admit(x, now, vector, set)
  end
  update.change(x, now, vector, set, step.clear, step.is_timed)
  index.enter(x, now)
  event.append(x, step.event, now, outcome)
  key_turns.pass_on(x, now)
end

local function apply(x, now, step, set, outcome)
  if x.admission or x.waits_for or x.limit_pass or x.reserved_budgets then
    set = limit_release.leave(x, now, step.state, set)
  end
  if x.concurrency_key then return apply_keyed(x, now, step, set, outcome) end
  index.leave(x)
  update.change(x, now, step.state, set, step.clear, step.is_timed)
  index.enter(x, now)
  event.append(x, step.event, now, outcome)
end

-- step: event, state (the whole state vector), clear? (fields to drop), is_timed? (set holds the
-- time of the change). set: fields to change, names and values in turn.
function M.apply(x, now, step, set, outcome)
  if not x.flow_id then return apply(x, now, step, set, outcome) end
  local before = member.leaves(x)
  apply(x, now, step, set, outcome)
  member.arrives(x, now, before)
end

-- Two steps in one, for a plain execution that is no member of a flow. The fields of the first step
-- are dropped.
function M.apply_both(x, now, first, outcome, second, set)
  index.leave(x)
  local line = event.line(x, first.event, outcome)
  update.change(x, now, second.state, set, first.clear, second.is_timed)
  index.enter(x, now)
  event.append_both(x, now, line, event.line(x, second.event))
end

-- Accept and start in one step. x.newborn: fields (of its record) and line (of its creation).
function M.apply_first(x, now, step, set, outcome)
  local fields, line = x.newborn.fields, x.newborn.line
  local n = #fields
  for i = 1, #set do fields[n + i] = set[i] end
  x.newborn = nil
  update.change(x, now, step.state, fields, nil, step.is_timed)
  index.enter(x, now)
  event.append_both(x, now, line, event.line(x, step.event, outcome))
end

-- apply() for a plain record, from one usual state (step.from) to another. The rest: arguments of
-- update.change_usual.
function M.apply_usual(x, now, step, outcome, ...)
  local in_batch = x.writes
  if not in_batch then index.leave(x) end
  update.change_usual(x, step.state, ...)
  if in_batch then return bulk_step.join(x, now, step, outcome) end
  index.enter(x, now)
  event.append(x, step.event, now, outcome)
end

return M
