-- Tenants: which records a call may name. A call without a scope is trusted and may name all. A call with a scope may
-- name records of its namespaces; all others are reported as not found.
--
-- Only executions that the caller names are hidden. Those that an index leads to are not: the end
-- of an execution promotes the next one of its lane, of any tenant.
-- @uses reply
local M = {scope = nil, functions = {}, subjects = {}}

local DEFAULT = "default"
local ABSENT = {core = "execution_not_found", flow_core = "flow_not_found"}

-- A namespace as it is compared: an absent one is the default.
function M.name(namespace) return namespace and namespace ~= "" and namespace or DEFAULT end

-- Is an execution, or a flow, of this namespace hidden from the caller?
function M.hides(namespace)
  local scope = M.scope
  return scope ~= nil and not scope[M.name(namespace)]
end

-- The namespace that owns a budget or quota policy: the one it names, or that of its scope. nil: the store itself; no
-- tenant may name its limits.
function M.owner(def)
  if def.namespace and def.namespace ~= "" then return def.namespace end
  return def.scope_type == "namespace" and def.scope_id or nil
end

-- Is it hidden from the caller?
function M.hides_limit(def) return M.scope ~= nil and not M.scope[M.owner(def) or ""] end

-- Does it belong to another namespace? nil and "": the namespace of the execution is unknown.
function M.is_foreign(def, namespace)
  local owner = M.owner(def)
  return owner ~= nil and namespace ~= nil and namespace ~= "" and namespace ~= owner
end

-- A refusal, or nil for a limit whose owner and scope are of one namespace.
function M.check_owner(namespace, scope_type, scope_id)
  if namespace ~= "" and scope_type == "namespace" and scope_id ~= namespace then
    return reply.invalid("namespace", "that of the scope, " .. scope_id, namespace)
  end
end

-- A refusal, or nil for a namespace that the caller may create things in.
function M.check_own(namespace)
  if M.hides(namespace) then return reply.invalid("namespace", "one of the caller's", namespace) end
end

-- A refusal, or nil for an execution of the flow's own namespace: all members of a flow are of one.
function M.check_member(flow_namespace, namespace)
  local own = M.name(flow_namespace)
  if own ~= M.name(namespace) then return reply.invalid("namespace", own .. ", as of the flow", M.name(namespace)) end
end

-- `subject`: the kind of its first key, where that names an execution or a flow that must be there.
function M.keep(name, call, subject) M.functions[name], M.subjects[name] = call, subject end

-- Why the execution or the flow of the first key cannot be named; nil when it can.
local function refuse_subject(kind, key, scope)
  if redis.call("EXISTS", key) == 1 and scope[M.name(redis.call("HGET", key, "namespace") or nil)] then return nil end
  return reply.refuse(ABSENT[kind])
end

-- Call a function for these namespaces. words: how many, each of them, the function, and its own arguments.
function M.call(keys, words)
  local count = tonumber((words[1] or ""):match("^%d+$"))
  if not count or #words < count + 2 then
    return reply.invalid("namespaces", "their number, each of them, and a function", words[1])
  end
  local name, scope, argv = words[count + 2], {}, {}
  if not M.functions[name] then return reply.invalid("function", "one that keeps to namespaces", name) end
  for i = 2, count + 1 do scope[words[i]] = true end
  for i = count + 3, #words do argv[i - count - 2] = words[i] end
  local kind = keys[1] and M.subjects[name]
  return kind and refuse_subject(kind, keys[1], scope) or M.functions[name](keys, argv, scope)
end

return M
