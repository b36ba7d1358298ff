-- Conditions on several waitpoints: a tree of AllOf, Count, Single and NeverBySignal. Signals leave
-- tokens at its nodes, each named by the suspension and the path of the node, so that nothing
-- counts for another node or a later suspension (D6). A node is met by its own tokens or members
-- alone, from the leaves up.
-- @uses bounds reply
local M = {}

local NAME = "resume_condition_json"
local MAX_DEPTH, MAX_NODES = bounds.MAX_COMPOSITE_DEPTH, bounds.MAX_CONDITION_NODES
local MAX_COUNT = bounds.MAX_POLICY_COUNT

M.RESERVED = {
  __operator_only__ = true, __timeout_only__ = true, __composite__ = true, __timeout__ = true,
}

local function wrong(path, problem, got)
  return reply.invalid(NAME, problem .. " at " .. (path == "" and "<root>" or path), got)
end

local function below(path, i) return (path == "" and "" or path .. ".") .. "members[" .. (i - 1) .. "]" end

local function is_text(value) return type(value) == "string" and value ~= "" end

local function check_matcher(matcher, path)
  if type(matcher) == "table" and matcher.kind == "Wildcard" then return nil end
  if type(matcher) == "table" and matcher.kind == "ByName" and is_text(matcher.name)
    and not M.RESERVED[matcher.name] then
    return nil
  end
  return wrong(path .. ".matcher", "{kind: ByName, name} or {kind: Wildcard}",
    type(matcher) == "table" and matcher.name or matcher)
end

local function too_deep(path, level)
  return wrong(path, "at most " .. MAX_DEPTH .. " levels (condition_depth_exceeded)", level)
end

local CHECKS, check = {}, nil

function CHECKS.Single(node, path, seen)
  if not is_text(node.waitpoint_key) or not seen.keys[node.waitpoint_key] then
    return wrong(path, "the key of a waitpoint of this suspension", node.waitpoint_key)
  end
  return check_matcher(node.matcher, path)
end

function CHECKS.NeverBySignal() return nil end

function CHECKS.AllOf(node, path, seen, level)
  if level > MAX_DEPTH then return too_deep(path, level) end
  if type(node.members) ~= "table" or #node.members == 0 then
    return wrong(path, "members that are not empty (allof_empty_members)", "")
  end
  for i, member in ipairs(node.members) do
    local refusal = check(member, below(path, i), seen, level + 1)
    if refusal then return refusal end
  end
end

local KINDS = {DistinctWaitpoints = true, DistinctSignals = true, DistinctSources = true}

local function distinct_keys(node, path, seen)
  local found, count = {}, 0
  if type(node.waitpoints) ~= "table" or #node.waitpoints == 0 then
    return nil, wrong(path, "waitpoints that are not empty (count_waitpoints_empty)", "")
  end
  for _, key in ipairs(node.waitpoints) do
    if not is_text(key) or not seen.keys[key] then
      return nil, wrong(path .. ".waitpoints", "keys of waitpoints of this suspension", key)
    end
    if not found[key] then found[key], count = true, count + 1 end
  end
  return count
end

function CHECKS.Count(node, path, seen, level)
  local n = node.n
  if level > MAX_DEPTH then return too_deep(path, level) end
  if type(n) ~= "number" or n < 1 or n > MAX_COUNT or n % 1 ~= 0 then
    return wrong(path, "n from 1 (count_n_zero)", n)
  end
  if not KINDS[node.count_kind] then return wrong(path, "a count_kind", node.count_kind) end
  local count, refusal = distinct_keys(node, path, seen)
  if refusal then return refusal end
  if node.count_kind == "DistinctWaitpoints" and n > count then
    return wrong(path, "n of at most " .. count .. " waitpoints (count_exceeds_waitpoint_set)", n)
  end
  if node.matcher == cjson.null then node.matcher = nil end
  return node.matcher and check_matcher(node.matcher, path) or nil
end

-- Can the tree be met? keys: of the suspension's waitpoints. The path of a node follows from its
-- position.
function check(node, path, seen, level)
  seen.nodes = seen.nodes + 1
  if seen.nodes > MAX_NODES then return wrong(path, "at most " .. MAX_NODES .. " nodes (condition_too_large)", "") end
  local one = type(node) == "table" and CHECKS[node.kind]
  if not one then return wrong(path, "a node of kind Single, AllOf, Count or NeverBySignal", tostring(node)) end
  node.path = nil
  return one(node, path, seen, level)
end

function M.check(tree, keys) return check(tree, "", {keys = keys, nodes = 0}, 1) end

function M.accepts(matcher, name)
  return matcher == nil or matcher.kind == "Wildcard" or matcher.name == name
end

-- Every leaf with a waitpoint, and its path.
function M.leaves(node, path, key, found)
  if node.kind == "AllOf" then
    for i, member in ipairs(node.members) do M.leaves(member, below(path, i), key, found) end
  elseif node.kind == "Single" then
    if node.waitpoint_key == key then found[#found + 1] = {node = node, path = path} end
  elseif node.kind == "Count" then
    for _, listed in ipairs(node.waitpoints) do
      if listed == key then
        found[#found + 1] = {node = node, path = path}
        break
      end
    end
  end
  return found
end

-- counts: how many tokens each path has.
function M.is_met(node, path, counts)
  if node.kind == "AllOf" then
    for i, member in ipairs(node.members) do
      if not M.is_met(member, below(path, i), counts) then return false end
    end
    return true
  end
  if node.kind == "NeverBySignal" then return false end
  return (counts[path] or 0) >= (node.n or 1)
end

return M
