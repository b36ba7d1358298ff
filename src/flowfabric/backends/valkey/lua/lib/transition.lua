-- A transition is one step: out of the old index, into the record, into the new index, one line in the event log.
-- @uses record index event
local M = {}

-- step: event, outcome?, state (the whole state vector), set?, clear?, is_timed? (set holds the time of the change)
function M.apply(x, now, step)
  index.leave(x)
  record.change(x, now, step.state, step.set, step.clear, step.is_timed)
  index.enter(x, now)
  event.append(x, step.event, now, step.outcome)
end

return M
