-- An execution as an item of a batch: its positions, and the arguments of create.
-- @uses batch
local M = {}

local ITEM = batch.shape(1, {
  "uuid", "namespace", "lane_id", "execution_kind", "priority", "creator_identity", "policy_json", "delay_until",
  "idempotency_key", "dedup_ttl_ms", "tags_json", "execution_deadline_at", "payload_encoding",
}, {priority = true, delay_until = true, dedup_ttl_ms = true, execution_deadline_at = true})
-- Optional, and only together. A delay_ms of 0 is no delay.
local MORE = batch.shape(14, {"on_duplicate", "concurrency_key", "delay_ms"}, {delay_ms = true})
-- The short form, for executions without options.
local PLAIN = batch.shape(1, {"uuid", "namespace", "lane_id", "execution_kind", "payload_encoding"})

local function is_plain(item) return type(item) == "table" and #item == 5 end

function M.check(item)
  if is_plain(item) then return batch.check(item, PLAIN) end
  local wrong = batch.check(item, ITEM)
  if wrong or #item <= #ITEM.names then return wrong end
  return batch.check(item, MORE)
end

function M.arguments(item, payload)
  if is_plain(item) then
    return {
      is_plain = true, namespace = item[2], lane_id = item[3], execution_kind = item[4], payload_encoding = item[5],
      input_payload = payload or "", on_duplicate = "return_existing",
    }
  end
  return {
    namespace = item[2], lane_id = item[3], execution_kind = item[4], priority = item[5], creator_identity = item[6],
    policy_json = item[7], input_payload = payload or "", delay_until = item[8] > 0 and item[8] or nil,
    dedup_ttl_ms = item[10], tags_json = item[11], execution_deadline_at = item[12] > 0 and item[12] or nil,
    payload_encoding = item[13],
    on_duplicate = item[14] or "return_existing", concurrency_key = item[15] or "",
    delay_ms = item[16] and item[16] > 0 and item[16] or nil,
  }
end

return M
