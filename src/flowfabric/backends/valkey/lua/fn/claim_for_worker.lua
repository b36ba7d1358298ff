--- Grant the best eligible execution of a lane that this worker can run; its state does not change.
-- @keys    partition
-- @args    lane_id:id worker_id:id worker_instance_id:id worker_capabilities_csv grant_ttl_ms:pos
-- @reply   execution_id grant_expires_at
-- @errors  invalid_input
-- @repeat  unsafe
-- @uses    admission candidates claim clock grant listing record reply
local PAGE, PAGES = 100, 10

-- The first that nothing stands in the way of. Those that are granted to others are passed over.
local function find(tag, A, now)
  local keys = candidates.queues({tag = tag, lane_id = A.lane_id}, A.worker_capabilities_csv)
  for page = 0, PAGES - 1 do
    local ids = candidates.heads(keys, page * PAGE, PAGE)
    for _, id in ipairs(ids) do
      local x = record.load("ff:exec:" .. tag .. ":" .. id .. ":core")
      if not claim.check_found(x, now) and not admission.check_limits(x) then return x end
    end
    if #ids < PAGE then return nil end
  end
end

return function(K, A)
  local now, tag, refusal = clock.now_ms(), listing.tag(K.partition)
  if refusal then return refusal end

  local x = not admission.lane_obstacle({tag = tag, lane_id = A.lane_id}, true) and find(tag, A, now)
  if not x then return reply.ok("", "") end
  A.capability_hash, A.route_snapshot_json, A.admission_summary = "", "", ""
  return reply.ok(x.id, grant.issue(x, now, A))
end
