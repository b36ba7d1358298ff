-- Single edges, as callers of the public wire move them: applied to a child, or resolved with an
-- outcome.
-- @uses advance edge flow flow_failure flow_state join state tasks transition update vectors
local M = {}

-- A member that has only waited for others.
M.WAITING = state.usual("runnable", "waiting_children")

local BLOCKED = {event = "blocked", state = vectors.KEPT.BLOCKED_BY_DEPENDENCIES}

-- A separate run for one flow.
local function start(f, now)
  local run = tasks.start(f.tag, now)
  tasks.know(run, f)
  return run
end

local function resolve(run, f, e, outcome)
  local counter
  local is_handled = (outcome == "failed" or outcome == "expired") and flow_failure.is_handled(f, e.up)
  e.state, counter = edge.verdict(e.kind, outcome, nil, is_handled)
  edge.save(f, e)
  local status, detail = join.count(run, f, e, counter)
  advance.drive(run)
  return status, detail
end

-- Resolve an open edge. Answers the state of the join and what happened to the child.
function M.resolve(f, e, outcome, now) return resolve(start(f, now), f, e, outcome) end

-- A child with an open edge waits; a running child may wait for it later.
function M.block(x, now)
  if x.lifecycle_phase == "runnable" and x.eligibility_state ~= "blocked_by_dependencies" then
    transition.apply(x, now, BLOCKED, nil, "waiting_for_children")
  end
end

-- The child waits for the edge. Its delay applies afterwards (D23).
function M.apply(f, e, x, now)
  local run = start(f, now)
  if flow.has_ended(f) then flow_state.reopen(f) end
  e.state = "unsatisfied"
  edge.save(f, e)
  x.run, x.flow = run, f
  M.block(x, now)
  if e.ref ~= "" then update.write(x, now, {"has_inputs", "1"}) end
  local upstream = tasks.member(run, f, e.up)
  if upstream and upstream.lifecycle_phase == "terminal" then
    resolve(run, f, e, upstream.terminal_outcome)
  else
    advance.drive(run)
  end
end

return M
