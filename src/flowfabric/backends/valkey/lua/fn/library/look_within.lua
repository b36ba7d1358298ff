--- Call a read-only function for the namespaces of a tenant; replicas answer it, too.
-- @keys    *keys
-- @args    *words
-- @reply
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    tenant
return function(K, A) return tenant.call(K.keys, A.words) end
