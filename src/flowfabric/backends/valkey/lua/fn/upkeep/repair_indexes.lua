--- Compare index entries of a partition with their records, page by page, and repair them.
-- @keys    partition
-- @args    from_lane from_key after_score after_id limit:pos
-- @reply   checked repaired lane key score id
-- @errors  invalid_input
-- @events  unblocked
-- @repeat  safe
-- @uses    clock implied index_scan listing repair reply
return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  refusal = refusal or index_scan.check(A)
  if refusal then return refusal end

  local pass = repair.pass(tag)
  local function indexes_of(lane)
    pass.lanes[#pass.lanes + 1] = lane
    return implied.indexes(tag, lane)
  end
  local seen, lane, key, score, id = index_scan.run(tag, A, indexes_of,
    function(from, ids) repair.entries(pass, from, ids) end)
  repair.leases(pass)
  repair.turns(pass, clock.now_ms())
  repair.capability_sets(pass)

  return reply.ok(seen, pass.repaired, lane, key, score, id)
end
