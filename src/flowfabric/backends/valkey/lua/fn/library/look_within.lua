--- The same for functions that write nothing, which a server answers that takes no writes.
-- @keys    *keys
-- @args    *words
-- @reply
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    tenant
return function(K, A) return tenant.call(K.keys, A.words) end
