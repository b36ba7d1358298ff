--- Call a function for the namespaces of a tenant: everything outside of them is reported as not found.
-- @keys    *keys
-- @args    *words
-- @reply
-- @errors  invalid_input
-- @repeat  safe
-- @uses    tenant
return function(K, A) return tenant.call(K.keys, A.words) end
