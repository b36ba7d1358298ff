--- Append a frame to the output stream of the running attempt; the first frame creates the stream.
-- @keys    core ~stream ~stream_meta
-- @args    execution_id:id attempt_index:nat lease_id lease_epoch frame_type ts:nat? payload encoding=utf8
--          correlation_id= source=worker retention_maxlen:nat=0 attempt_id= max_payload_bytes:pos=65536 stream_mode=
--          patch_kind= ttl_ms:nat=0 maxlen_floor:nat=64 maxlen_ceiling:pos=16384 ema_alpha= metadata_json=
--          retention_ms:nat=0 step_run=
-- @reply   entry_id frame_count summary_version
-- @errors  invalid_input retention_limit_exceeded stream_closed stale_owner_cannot_append corruption
-- @repeat  unsafe
-- @uses    clock digits frame_header frames record reply stream_guard
return function(K, A)
  local now, x, payloads = clock.now_ms(), record.at(K.core), {A.payload}
  A.attempt_index = digits.of(A.attempt_index)

  local wrong = frames.check_sizes(payloads, A.max_payload_bytes) or frame_header.check(A)
  if wrong then return wrong end
  local s, refusal = stream_guard.open(x, A, now)
  if refusal then return refusal end
  local kept = {maxlen = A.retention_maxlen, age_ms = A.retention_ms}
  local ids, bad_patch = frames.append(x, s, {A}, {1}, payloads, kept, now)
  if bad_patch then return bad_patch end

  return reply.ok(ids[1], s.count, s.summary and s.summary.version or "")
end
