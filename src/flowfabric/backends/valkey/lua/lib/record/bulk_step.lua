-- Bulk steps: executions of a batch that make the same step between usual states. The index entries
-- and the event line of the first one hold for all of them and are computed once.
-- @uses event index upcalls
local M = {}

-- The fields that decide the index entries of these ids in that state.
local function sample(x, vector, ids)
  return {
    tag = x.tag, lane_id = x.lane_id, writes = x.writes, ids = ids, lifecycle_phase = vector.lifecycle_phase,
    eligibility_state = vector.eligibility_state, terminal_outcome = vector.terminal_outcome,
    current_worker_instance_id = x.current_worker_instance_id, lease_expires_at = x.lease_expires_at,
    completed_at = x.completed_at,
  }
end

function upcalls.list_bulk_steps(collected)
  for _, crowd in ipairs(collected.crowds) do
    index.leave(crowd.before)
    index.enter(crowd.after)
  end
  collected.crowds = {}
end

local function gather(x, now, step, outcome)
  local collected, ids = x.writes, {}
  local crowd = {
    before = sample(x, step.from, ids), after = sample(x, step.state, ids), ids = ids, count = 0,
    lane_id = x.lane_id, worker = x.current_worker_instance_id, epoch = x.current_lease_epoch,
    index = x.current_attempt_index,
  }
  local crowds = collected.crowds
  crowds[step], crowds[#crowds + 1] = crowd, crowd
  event.append_all(x, step.event, now, outcome, ids)
  return crowd
end

-- x has made the step. step: event, from, state.
function M.join(x, now, step, outcome)
  local crowd = x.writes.crowds[step]
  if not crowd or crowd.lane_id ~= x.lane_id or crowd.worker ~= x.current_worker_instance_id
    or crowd.epoch ~= x.current_lease_epoch or crowd.index ~= x.current_attempt_index then
    crowd = gather(x, now, step, outcome)
  end
  local count = crowd.count + 1
  crowd.ids[count], crowd.count = x.id, count
end

return M
