--- Announce again which queues of a partition have work: the safety net for lost messages.
-- @keys    partition
-- @args
-- @reply   announced
-- @errors  invalid_input
-- @repeat  safe
-- @uses    admission listing reply wakeup
return function(K)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end

  local announced = 0
  for _, lane in ipairs(listing.lanes(tag, "", "")) do
    -- A draining lane still resumes started executions.
    if not admission.lane_obstacle({tag = tag, lane_id = lane}, true) then
      announced = announced + wakeup.announce(tag, lane)
    end
  end

  return reply.ok(announced)
end
