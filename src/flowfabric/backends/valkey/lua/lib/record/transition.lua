-- A transition is one step: out of the old index, into the record, into the new index, one line in the event log.
-- @uses bulk_step event index key_turns limit_release member update
local M = {}

-- One of a concurrency key may have to wait for the others, and others may go on because of it.
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
    set = limit_release.leave(x, now, step.state.lifecycle_phase, set)
  end
  if x.concurrency_key then return apply_keyed(x, now, step, set, outcome) end
  index.leave(x)
  update.change(x, now, step.state, set, step.clear, step.is_timed)
  index.enter(x, now)
  event.append(x, step.event, now, outcome)
end

-- step: event, state (the whole state vector), clear? (fields that go), is_timed? (set holds the time of the change).
-- set: fields that change, names and values in turn.
function M.apply(x, now, step, set, outcome)
  if not x.flow_id then return apply(x, now, step, set, outcome) end
  local before = member.leaves(x)
  apply(x, now, step, set, outcome)
  member.arrives(x, now, before)
end

-- Two steps in one, of an execution that nobody sees between them: no member of a flow, without a concurrency key and
-- limits. What goes goes with the first.
function M.apply_both(x, now, first, outcome, second, set)
  index.leave(x)
  local line = event.line(x, first.event, outcome)
  update.change(x, now, second.state, set, first.clear, second.is_timed)
  index.enter(x, now)
  event.append_both(x, now, line, event.line(x, second.event))
end

-- Accepted and started in one step. x.newborn: fields (of its record) and line (that says it was accepted).
function M.apply_first(x, now, step, set, outcome)
  local fields, line = x.newborn.fields, x.newborn.line
  local n = #fields
  for i = 1, #set do fields[n + i] = set[i] end
  x.newborn = nil
  update.change(x, now, step.state, fields, nil, step.is_timed)
  index.enter(x, now)
  event.append_both(x, now, line, event.line(x, step.event, outcome))
end

-- apply() from one usual state (step.from) to another, for what has nothing unusual about it: no concurrency key, no
-- capabilities, no time-outs, no field that goes. The rest is what update.change_usual takes.
function M.apply_usual(x, now, step, outcome, ...)
  local in_batch = x.writes
  if not in_batch then index.leave(x) end
  update.change_usual(x, step.state, ...)
  if in_batch then return bulk_step.join(x, now, step, outcome) end
  index.enter(x, now)
  event.append(x, step.event, now, outcome)
end

return M
