--- Grant this worker the best eligible execution of a lane that it can run; its state does not change.
-- @keys    partition
-- @args    lane_id:id worker_id:id worker_instance_id:id worker_capabilities_csv grant_ttl_ms:pos
-- @reply   execution_id grant_expires_at offer
-- @errors  invalid_input
-- @repeat  unsafe
-- @uses    admission claim claim_queues clock grant limit_queue limit_scopes listing offering record reply
local PAGE, PAGES = 100, 10

-- Whether it can start now on this worker; nil if its entry does not belong in a queue.
local function is_free(tag, id, offered, now)
  local x = record.load("ff:exec:" .. tag .. ":" .. id .. ":core")
  if not claim.is_queued(x) then return nil end
  if claim.needs_more(x, offered) then return false, x end
  local limits = limit_scopes.of(x)
  if limits and limit_queue.closed(x, limits) then return false, x end
  return not claim.check_found(x, now) and not admission.check_limits(x), x
end

-- The first execution that can start. Executions granted to other workers are skipped, and stale entries are
-- removed, so that the next call gets further.
local function find(tag, A, now)
  local keys, skip = claim_queues.queues({tag = tag, lane_id = A.lane_id}, A.worker_capabilities_csv), 0
  for _ = 1, PAGES do
    local ids, strays = claim_queues.heads(keys, skip, PAGE), {}
    for _, id in ipairs(ids) do
      local is_readable, is_found, x = pcall(is_free, tag, id, A.worker_capabilities_csv, now)
      if not is_readable or is_found == nil then strays[#strays + 1] = id end
      if is_readable and is_found then return x end
    end
    claim_queues.drop(keys, strays)
    if #ids < PAGE then return nil end
    skip = skip + #ids - #strays
  end
end

return function(K, A)
  local now, tag, refusal = clock.now_ms(), listing.tag(K.partition)
  if refusal then return refusal end

  local x = not admission.lane_obstacle({tag = tag, lane_id = A.lane_id}, true) and find(tag, A, now)
  if not x then return reply.ok("", "") end
  A.capability_hash, A.route_snapshot_json, A.admission_summary = "", "", ""
  local due, limits = grant.issue(x, now, A), limit_scopes.of(x)
  local answer = reply.ok(x.id, due)
  if limits then answer[5] = offering.row(x, limits, offering.note(x, limits, A.worker_instance_id, due, now)) end
  return answer
end
