--- Signal the open waitpoint of an execution; if its condition is met, suspended -> waiting, or delayed.
-- @keys    core
-- @args    execution_id:id signal_id:id signal_name waitpoint_key= payload= payload_encoding=json signal_category=
--          source_type= source_identity= correlation_id= idempotency_key= target_scope=execution created_at:nat?
--          dedup_ttl_ms:nat=86400000 resume_delay_ms:nat? signal_maxlen:nat=1000 max_signals_per_execution:nat?
--          fitted_to=
-- @reply   signal_id effect
-- @errors  invalid_input execution_not_found payload_too_large target_not_signalable signal_limit_exceeded
--          answer_unchecked
-- @events  signalled woken resumed
-- @repeat  safe
-- @uses    clock delivery record
-- It needs no token: it is for trusted callers of the store, which could read the token there. A server must
-- authorize its callers before it offers this; a caller with only a token uses ff_deliver_signal.
return function(K, A)
  return delivery.send(record.load(K.core), A, clock.now_ms())
end
