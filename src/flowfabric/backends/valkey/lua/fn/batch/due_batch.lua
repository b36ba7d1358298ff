--- Apply expired leases, delays, timeouts, deadlines and waitpoint expiry in one partition, up to a limit each.
-- @keys    partition
-- @args    limit:pos
-- @reply   requeued promoted timed_out expired failed more woken escalated suspensions_ended waitpoints_closed
--          flow_work
-- @errors  invalid_input
-- @events  requeued promoted retry_scheduled expired failed woken escalated cancelled claimed resumed unblocked skipped
--          blocked completed flow_completed flow_failed flow_cancelled
-- @repeat  safe
-- @uses    batch clock digits due flow_work index_key listing parked_handoff record reply suspension_timeout
--          waitpoint writes
local MAX_LIMIT, SET_ASIDE_MS = 1000, 60000

local function due_ids(key, now, limit) return redis.call("ZRANGE", key, "-inf", now, "BYSCORE", "LIMIT", 0, limit) end

local function look_again(tag, id, collected, one)
  local at = batch.at(tag, id:sub(#tag + 2), collected)
  local x = record.fill(batch.at(tag, id:sub(#tag + 2), collected))
  return one(x or at, x)[3], x
end

-- Check one due entry again. A stale entry is dropped. An entry that is not due by its record moves to its
-- due_field. An entry with an unreadable record is put off for a while. So none of them blocks the rest.
local function look(tag, key, id, now, collected, one, due_field)
  local readable, status, x = pcall(look_again, tag, id, collected, one)
  if not readable then
    redis.call("ZADD", key, digits.of(now + SET_ASIDE_MS), id)
    return "unreadable"
  end
  local due = status == "not_yet_due" and due_field and x[due_field]
  if due then
    redis.call("ZADD", key, due, id)
  elseif status == "not_lost" or status == "not_yet_due" and due_field or status:sub(-8) == "_cleaned" then
    redis.call("ZREM", key, id)
  end
  return status
end

local function each_due(tag, key, now, limit, counts, one, due_field)
  local ids, collected = due_ids(key, now, limit), writes.collector()
  collected.wakes_later = true
  for _, id in ipairs(ids) do
    local status = look(tag, key, id, now, collected, one, due_field)
    counts[status] = (counts[status] or 0) + 1
  end
  writes.flush(collected)
  parked_handoff.offer_all(tag, collected, now)
  if #ids == limit then counts.more = 1 end
end

-- Close pending waitpoints that no suspension used in time.
local function close_waitpoints(tag, now, limit, counts)
  local key = index_key.partition({tag = tag}, "pending_waitpoint_expiry")
  local ids = due_ids(key, now, limit)
  for _, id in ipairs(ids) do
    local w = waitpoint.load(tag, id)
    if w and w.state == "pending" then
      waitpoint.close(tag, id, "never_committed", now)
      counts.closed = (counts.closed or 0) + 1
    end
    redis.call("ZREM", key, id)
  end
  if #ids == limit then counts.more = 1 end
end

return function(K, A)
  local now, counts = clock.now_ms(), {}
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end

  local part = {tag = tag}
  each_due(tag, index_key.partition(part, "lease_expiry"), now, A.limit, counts, function(_, x)
    return due.requeue_lost(x, now)
  end)
  for _, lane in ipairs(redis.call("SMEMBERS", index_key.partition(part, "lanes"))) do
    each_due(tag, index_key.lane({tag = tag, lane_id = lane}, "delayed"), now, A.limit, counts, function(_, x)
      return due.promote(x, now)
    end, "delay_until")
  end
  each_due(tag, index_key.partition(part, "execution_deadline"), now, A.limit, counts, function(at, x)
    return due.expire(at, x, "execution_deadline", now)
  end)
  each_due(tag, index_key.partition(part, "attempt_timeout"), now, A.limit, counts, function(at, x)
    return due.time_out(at, x, now)
  end)
  each_due(tag, index_key.partition(part, "suspension_timeout"), now, A.limit, counts, function(at, x)
    return suspension_timeout.apply(at, x, now)
  end, "suspension_timeout_at")
  close_waitpoints(tag, now, A.limit, counts)
  local flow_work_done, is_more = flow_work.run(tag, now, A.limit)
  if is_more then counts.more = 1 end

  return reply.ok(counts.requeued or 0, counts.promoted or 0, counts.retry_scheduled or 0, counts.expired or 0,
    counts.failed or 0, counts.more or 0, counts.auto_resume or 0, counts.escalate or 0,
    (counts.fail or 0) + (counts.cancel or 0) + (counts.expire or 0), counts.closed or 0, flow_work_done)
end
