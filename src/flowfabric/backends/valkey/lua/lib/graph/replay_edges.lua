-- Replay a finished member: effects of its end are taken back, unless a later member has run
-- because of them (D23).
-- @uses advance edge flow flow_failure flow_state join_record replay_members reply tasks
local M = {}

-- A refusal or nil: a cancelled flow stays cancelled, and a flow whose stand-in has ended is not
-- replayed. code: of the refusal.
function M.check(x, code)
  code = code or "replay_not_allowed"
  if x.child_flow_id then return reply.refuse(code, "child_flow") end
  local f = x.flow_id and flow.load(x.tag, x.flow_id)
  if not f then return nil end
  if f.public_flow_state == "cancelled" then return reply.refuse(code, "flow_cancelled") end
  if f.parent_execution_id and flow.has_ended(f) then return reply.refuse(code, "child_flow") end
end

-- A replayed member waits again for upstreams that run again; one that never ran also waits for
-- upstreams whose end had made it impossible. An upstream that has succeeded since then counts as
-- satisfied.
local function reopen_in(run, f, x)
  local is_first = x.terminal_outcome == "skipped" or not replay_members.has_run(x)
  for _, e in ipairs((edge.page(f, edge.in_key(f, tasks.uuid(x)), 0))) do
    local is_closed = e.state == "satisfied" or e.state == "impossible" and is_first
    local upstream = is_closed and tasks.member(run, f, e.up)
    local has_ended = upstream and upstream.lifecycle_phase == "terminal"
    if upstream and (e.state == "impossible" or not has_ended) then
      replay_members.take_back(f, e, replay_members.task_of(upstream))
      if has_ended and edge.verdict(e.kind, upstream.terminal_outcome) == "satisfied" then
        e.state = "satisfied"
        edge.save(f, e)
        join_record.count(join_record.of_edge(f, e), "succeeded", run.now)
      end
    end
  end
end

-- Before the member itself moves: reopen its flow. Answers its next state and a run to finish; nil
-- when it has no flow.
function M.begin(x, now)
  local f = x.flow_id and flow.load(x.tag, x.flow_id)
  if not f then return nil end
  local run, uuid = tasks.start(x.tag, now), tasks.uuid(x)
  tasks.know(run, f)
  tasks.add(run, replay_members.task_of(x), f, uuid, 0)
  if flow.is_closed(f) then tasks.add(run, "revive", f, "-", 0) end
  if flow.has_ended(f) then flow_state.reopen(f) end
  flow.add(f, flow.COUNTED[x.terminal_outcome], -1)
  flow_failure.forget(f, "member " .. uuid)
  reopen_in(run, f, x)
  x.run, x.flow = run, f
  local g = join_record.load(f, uuid)
  local waits = g.n > 0 and g.group_state == "pending"
  local where = waits and replay_members.BLOCKED or replay_members.QUEUED
  return {run = run, state = where, open_count = waits and join_record.open_count(g) or 0}
end

function M.finish(again) advance.drive(again.run) end

return M
