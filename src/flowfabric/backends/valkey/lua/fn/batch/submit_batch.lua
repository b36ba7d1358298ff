--- Accept many executions of one partition: create_execution for each, with one reply for each.
-- @keys    partition
-- @args    items:id *payloads
-- @reply   outcomes
-- @errors  invalid_input
-- @events  created replaced blocked unblocked claimed resumed
-- @repeat  safe
-- @uses    batch clock parked_handoff submission submit
return function(K, A)
  local now, tag = clock.now_ms(), batch.tag(K.partition)
  local items, refusal = batch.decode("items", A.items)
  if refusal then return refusal end

  local executions, wrongs, cores, added = {}, {}, {}, nil
  local outcomes = batch.each(items, function(item, _, i)
    if wrongs[i] then return wrongs[i] end
    local key = item[9]
    local idempotency = key and key ~= "" and "ff:idem:" .. tag .. ":" .. key or nil
    local outcome = submit.create(executions[i], idempotency, submission.arguments(item, A.payloads[i]), now)
    local is_waiting = outcome[2] == "OK" and outcome[4] == "waiting"
    return is_waiting and 1 or outcome  -- the short form of the common case
  end, function(collected)
    added, collected.wakes_later = collected, true
    for i = 1, #items do
      wrongs[i] = submission.check(items[i])
      executions[i] = not wrongs[i] and batch.at(tag, items[i][1], collected)
      if #items == 1 and executions[i] then executions[i].is_alone = true end
      if executions[i] then cores[#cores + 1] = executions[i].core end
    end
    submit.look_ahead(collected, cores)
  end)
  parked_handoff.offer_all(tag, added, now)

  return {1, "OK", outcomes}
end
