--- Accept many executions of one partition: create_execution for each, one envelope for each.
-- @keys    partition
-- @args    items:id *payloads
-- @reply   outcomes
-- @errors  invalid_input
-- @events  created replaced blocked unblocked
-- @repeat  safe
-- @uses    batch clock submit
local ITEM = batch.shape(1, {
  "uuid", "namespace", "lane_id", "execution_kind", "priority", "creator_identity", "policy_json", "delay_until",
  "idempotency_key", "dedup_ttl_ms", "tags_json", "execution_deadline_at", "payload_encoding",
}, {priority = true, delay_until = true, dedup_ttl_ms = true, execution_deadline_at = true})
-- Few have these, which come together; no delay is less than none.
local MORE = batch.shape(14, {"on_duplicate", "concurrency_key", "delay_ms"}, {delay_ms = true})

local function check(item)
  local wrong = batch.check(item, ITEM)
  if wrong or #item <= #ITEM.names then return wrong end
  return batch.check(item, MORE)
end

local function arguments(item, payload)
  return {
    namespace = item[2], lane_id = item[3], execution_kind = item[4], priority = item[5], creator_identity = item[6],
    policy_json = item[7], input_payload = payload or "", delay_until = item[8] > 0 and item[8] or nil,
    dedup_ttl_ms = item[10], tags_json = item[11], execution_deadline_at = item[12] > 0 and item[12] or nil,
    payload_encoding = item[13],
    on_duplicate = item[14] or "return_existing", concurrency_key = item[15] or "",
    delay_ms = item[16] and item[16] > 0 and item[16] or nil,
  }
end

return function(K, A)
  local now, tag = clock.now_ms(), batch.tag(K.partition)
  local items, refusal = batch.decode("items", A.items)
  if refusal then return refusal end

  local executions, wrongs, cores = {}, {}, {}
  local outcomes = batch.each(items, function(item, _, i)
    if wrongs[i] then return wrongs[i] end
    local idempotency = item[9] ~= "" and "ff:idem:" .. tag .. ":" .. item[9] or nil
    local outcome = submit.create(executions[i], idempotency, arguments(item, A.payloads[i]), now)
    local is_plain = outcome[2] == "OK" and outcome[4] == "waiting"
    return is_plain and 1 or outcome  -- nearly all of them: said as shortly as can be
  end, function(collected)
    for i = 1, #items do
      wrongs[i] = check(items[i])
      executions[i] = not wrongs[i] and batch.at(tag, items[i][1], collected)
      if executions[i] then cores[#cores + 1] = executions[i].core end
    end
    submit.look_ahead(collected, cores)
  end)

  return {1, "OK", outcomes}
end
