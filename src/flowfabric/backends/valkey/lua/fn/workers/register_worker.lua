--- Register a worker, or update what it offers: it counts as alive for ttl_ms from now on.
-- @keys    ~alive caps ~index
-- @args    worker_instance_id:id worker_id:id lanes_csv caps_csv ttl_ms:pos now_ms:nat=0 version= host= slots:nat=0
--          tasks=
-- @reply   status
-- @errors  invalid_input worker_instance_in_use
-- @repeat  safe
-- @uses    batch bounds capability clock digits names reply task_registry worker_registry
local function given(fields, name, value)
  if value ~= "" then
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
end

local TASK = batch.shape(1, {"name", "options"})

-- The tasks that it has, or a refusal.
local function read_tasks(text)
  if text == "" then return {} end
  local is_readable, tasks = pcall(cmsgpack.unpack, text)
  if not is_readable or type(tasks) ~= "table" then
    return nil, reply.invalid("tasks", "MessagePack", text:sub(1, 20))
  end
  if #tasks > bounds.MAX_TASK_NAMES then
    return nil, reply.invalid("tasks", "at most " .. bounds.MAX_TASK_NAMES, #tasks)
  end
  for _, task in ipairs(tasks) do
    local wrong = batch.check(task, TASK)
    if wrong then return nil, wrong end
    if task[1] == "" or #task[1] > bounds.EXECUTION_KIND_MAX_BYTES or #task[2] > bounds.TASK_OPTIONS_MAX_BYTES then
      return nil, reply.invalid("tasks", "names and options within their bounds", task[1])
    end
  end
  return tasks
end

-- As claims name them.
local function kinds_of(tasks)
  local kinds = {}
  for i, task in ipairs(tasks) do kinds[i] = capability.escaped(task[1]) end
  return table.concat(kinds, ",")
end

local function fields_of(A, registered_at, tasks)
  local fields = {"worker_id", A.worker_id, "ttl_ms", digits.of(A.ttl_ms), "registered_at_ms", registered_at}
  given(fields, "lanes_csv", A.lanes_csv)
  given(fields, "caps_csv", A.caps_csv)
  given(fields, "version", A.version)
  given(fields, "host", A.host)
  given(fields, "tasks", kinds_of(tasks))
  given(fields, "slots", A.slots > 0 and digits.of(A.slots) or "")
  return fields
end

return function(K, A)
  local now = clock.at(A.now_ms)
  local name, refusal = worker_registry.name(K.caps)
  if refusal then return refusal end
  local tasks, wrong = read_tasks(A.tasks)
  if wrong then return wrong end

  if name:match(":(.+)$") ~= names.part(A.worker_instance_id) then
    return reply.invalid("worker_instance_id", "the one in the key", A.worker_instance_id)
  end
  local alive = worker_registry.alive_until(name, now)
  local known = alive and worker_registry.facts(name, {"worker_id", "registered_at_ms"}) or {}
  if alive and known[1] ~= A.worker_id then return reply.refuse("worker_instance_in_use", known[1]) end

  worker_registry.enrol(name, fields_of(A, known[2] or digits.of(now), tasks))
  task_registry.put(names.read(name:match("^[^:]+")) or "", tasks, A.version, now)
  worker_registry.prolong(name, now, A.ttl_ms)

  return reply.ok(alive and "refreshed" or "registered")
end
