--- Deliver a signal to a waitpoint with its token; if the condition is met, suspended -> waiting, or delayed.
-- @keys    core ~waitpoint_condition ~waitpoint_signals ~execution_signals ~signal ~signal_payload ~dedup ~waitpoint
--          ~suspension_current ~eligible ~suspended ~delayed ~suspension_timeout ~hmac_secrets
-- @args    signal_id:id execution_id:id waitpoint_id:id signal_name signal_category source_type source_identity payload
--          payload_encoding=json idempotency_key correlation_id target_scope=waitpoint created_at:nat?
--          dedup_ttl_ms:nat=86400000 resume_delay_ms:nat? signal_maxlen:nat=1000 max_signals_per_execution:nat?
--          waitpoint_token on_pending=refuse on_undeclared=keep fitted_to=
-- @reply   signal_id effect
-- @errors  invalid_input execution_not_found payload_too_large missing_token invalid_token token_expired
--          hmac_secret_not_initialized target_not_signalable waitpoint_pending_use_buffer_script waitpoint_closed
--          signal_limit_exceeded answer_unchecked
-- @events  signalled woken resumed
-- @repeat  safe
-- @uses    clock delivery record
return function(K, A)
  return delivery.deliver(record.load(K.core), A, clock.now_ms(), A.on_pending == "buffer")
end
