--- Append frames to the streams of running attempts of a partition: all frames of an attempt, or none.
-- @keys    partition
-- @args    groups:id *payloads
-- @reply   outcomes
-- @errors  invalid_input
-- @repeat  safe
-- @uses    batch clock frame_header frames reply stream_guard
local MAX_FRAMES = 1000
local GROUP = batch.shape(1, {
  "uuid", "attempt_index", "lease_id", "lease_epoch", "attempt_id", "first_number", "retention_maxlen", "retention_ms",
  "max_payload_bytes",
}, {first_number = true, retention_maxlen = true, retention_ms = true, max_payload_bytes = true})

local function from(list, skipped)
  return skipped == 0 and list or {unpack(list, skipped + 1)}
end

local function append(tag, item, payloads, now)
  local wrong = batch.check(item, GROUP)
  if wrong then return wrong end
  local heads, bad_head = frame_header.read(item[10])
  if bad_head then return bad_head end
  local too_large = frames.check_sizes(payloads, item[9])
  if too_large then return too_large end
  local x = batch.at(tag, item[1])
  local s, refusal = stream_guard.open(x, {
    attempt_index = item[2], lease_id = item[3], lease_epoch = item[4], attempt_id = item[5],
  }, now)
  if refusal then return refusal end
  local picks, kept = item[11], {maxlen = item[7], age_ms = item[8]}
  local skipped, disordered = frames.known(s, item[6], #picks)
  if disordered then return disordered end
  if skipped == #picks then return {1, "DUPLICATE", tostring(s.count), "", {}} end
  local numbered = s.epoch .. " " .. item[6] + #picks
  local ids, bad_patch = frames.append(x, s, heads, from(picks, skipped), from(payloads, skipped), kept, now, numbered)
  if bad_patch then return bad_patch end
  return {1, "OK", tostring(s.count), s.summary and tostring(s.summary.version) or "", ids}
end

-- The payloads of each group, or nil and a refusal.
local function share_out(groups, payloads)
  local shares, at = {}, 0
  for i, item in ipairs(groups) do
    if type(item) ~= "table" then return nil, reply.invalid("groups", "lists", item) end
    local heads, picks, share = item[10], item[11], {}
    if type(heads) ~= "table" or type(picks) ~= "table" or #picks == 0 then
      return nil, reply.invalid("groups", "heads and at least one frame in each", i)
    end
    for k = 1, #picks do
      if not heads[picks[k]] then return nil, reply.invalid("groups", "frames with a head", picks[k]) end
      share[k] = payloads[at + k]
    end
    shares[i], at = share, at + #picks
  end
  if at ~= #payloads or at > MAX_FRAMES then
    return nil, reply.invalid("payloads", "one for each frame, at most " .. MAX_FRAMES, #payloads)
  end
  return shares
end

return function(K, A)
  local now, tag = clock.now_ms(), batch.tag(K.partition)
  local groups, wrong = batch.decode("groups", A.groups)
  if wrong then return wrong end
  local shares, unequal = share_out(groups, A.payloads)
  if unequal then return unequal end

  local outcomes = {}
  for i, item in ipairs(groups) do outcomes[i] = append(tag, item, shares[i], now) end
  return {1, "OK", outcomes}
end
