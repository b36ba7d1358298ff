--- Buffer a signal for a pending waitpoint; at an active waitpoint it is delivered (D2).
-- @keys    core ~waitpoint_condition ~waitpoint_signals ~execution_signals ~signal ~signal_payload ~dedup ~waitpoint
--          ~hmac_secrets
-- @args    signal_id:id execution_id:id waitpoint_id:id signal_name signal_category source_type source_identity payload
--          payload_encoding=json idempotency_key correlation_id target_scope=waitpoint created_at:nat?
--          dedup_ttl_ms:nat=86400000 resume_delay_ms:nat? signal_maxlen:nat=1000 max_signals_per_execution:nat?
--          waitpoint_token
-- @reply   signal_id effect
-- @errors  invalid_input execution_not_found payload_too_large missing_token invalid_token token_expired
--          hmac_secret_not_initialized target_not_signalable waitpoint_closed signal_limit_exceeded
-- @events  signalled woken resumed
-- @repeat  safe
-- @uses    clock delivery record
return function(K, A)
  return delivery.deliver(record.load(K.core), A, clock.now_ms(), true)
end
