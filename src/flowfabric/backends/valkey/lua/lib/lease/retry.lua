-- Whether and when a failed attempt is retried. Pure arithmetic; core/rules/execution/retry.py is
-- the same rule in Python.
-- @uses bounds
local M = {}

local MAX_REQUESTED_DELAY = bounds.MAX_REQUESTED_RETRY_DELAY_MS

local function number_or(value, default)
  return type(value) == "number" and value or default
end

-- min(initial * multiplier ^ retries, max), without ever leaving the range of a double.
local function exponential(backoff, retries)
  local initial, ceiling = number_or(backoff.initial_delay_ms, 1000), number_or(backoff.max_delay_ms, 60000)
  if initial == 0 then return 0 end -- zero times infinity is no number
  return math.floor(math.min(initial * number_or(backoff.multiplier, 2) ^ retries, ceiling))
end

-- The same text gives the same jitter on every backend; the VM's own random numbers repeat in each call.
local function jitter(delay, seed)
  local fraction = tonumber(redis.sha1hex(seed):sub(1, 8), 16) / 4294967296
  local half = math.floor(delay / 2)
  return half + math.floor(fraction * (delay - half))
end

function M.backoff_ms(backoff, retries, seed)
  if type(backoff) ~= "table" then return 1000 end
  if backoff.type == "fixed" then return math.floor(number_or(backoff.delay_ms, 1000)) end
  if backoff.type ~= "exponential" then return 1000 end
  local delay = exponential(backoff, retries)
  return backoff.jitter == true and jitter(delay, seed) or delay
end

local function category_retries(categories, category)
  if type(categories) ~= "table" or #categories == 0 then return true end
  for _, allowed in ipairs(categories) do
    if allowed == category then return true end
  end
  return false
end

-- The delay before the next attempt, or nil when there is none. A delay asked for by the handler wins, within a cap.
function M.delay_ms(rules, retries, category, requested, seed)
  if type(rules) ~= "table" then return nil end
  if retries >= number_or(rules.max_retries, 0) then return nil end
  if not category_retries(rules.retryable_categories, category) then return nil end
  if requested then return math.min(requested, MAX_REQUESTED_DELAY) end
  return M.backoff_ms(rules.backoff, retries, seed)
end

return M
