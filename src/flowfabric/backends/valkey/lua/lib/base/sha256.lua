-- SHA-256 (FIPS 180-4) in steps, so that the state after a first block can be kept and used again.
-- The server's own library offers SHA-1 alone. Bit operations take numbers modulo 2^32, so sums need no reduction: over
-- the 64 rounds they stay below 2^47, and those operations are exact up to 2^51.
local M = {}

local K = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

M.START = {
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
}

local w = {}

-- The 16 words of the block of `text` that starts at `from`, and the 48 that follow from them.
local function schedule(text, from)
  local bxor, ror, rshift = bit.bxor, bit.ror, bit.rshift
  for i = 1, 16 do
    local a, b, c, d = text:byte(from + 4 * i - 4, from + 4 * i - 1)
    w[i] = ((a * 256 + b) * 256 + c) * 256 + d
  end
  for i = 17, 64 do
    local x, y = w[i - 15], w[i - 2]
    w[i] = w[i - 16] + bxor(ror(x, 7), ror(x, 18), rshift(x, 3)) + w[i - 7]
      + bxor(ror(y, 17), ror(y, 19), rshift(y, 10))
  end
end

-- The state after one more block.
local function compress(state, text, from)
  schedule(text, from)
  local band, bxor, ror, tobit = bit.band, bit.bxor, bit.ror, bit.tobit
  local a, b, c, d, e, f, g, h = unpack(state)
  local b_xor_c = bxor(b, c)
  for i = 1, 64 do
    local t = h + bxor(ror(e, 6), ror(e, 11), ror(e, 25)) + bxor(g, band(e, bxor(f, g))) + K[i] + w[i]
    local a_xor_b = bxor(a, b)
    local u = t + bxor(ror(a, 2), ror(a, 13), ror(a, 22)) + bxor(b, band(a_xor_b, b_xor_c))
    h, g, f, e, d, c, b, a, b_xor_c = g, f, e, d + t, c, b, a, u, a_xor_b
  end
  return {
    tobit(state[1] + a), tobit(state[2] + b), tobit(state[3] + c), tobit(state[4] + d),
    tobit(state[5] + e), tobit(state[6] + f), tobit(state[7] + g), tobit(state[8] + h),
  }
end

-- The state after a text of whole blocks.
function M.after(state, text)
  for from = 1, #text, 64 do state = compress(state, text, from) end
  return state
end

-- The state after the last part of a text, `before` bytes of which are in `state` already.
function M.finish(state, rest, before)
  local bits = (before + #rest) * 8
  local length = string.char(0, 0, 0, math.floor(bits / 4294967296) % 256, math.floor(bits / 16777216) % 256,
    math.floor(bits / 65536) % 256, math.floor(bits / 256) % 256, bits % 256)
  return M.after(state, rest .. "\128" .. ("\0"):rep((55 - #rest) % 64) .. length)
end

-- The digest as 32 bytes.
function M.bytes(state)
  local out = {}
  for i = 1, 8 do
    local word = state[i] % 4294967296
    out[i] = string.char(math.floor(word / 16777216), math.floor(word / 65536) % 256, math.floor(word / 256) % 256,
      word % 256)
  end
  return table.concat(out)
end

-- The digest as 64 hexadecimal digits.
function M.hex(state)
  local out = {}
  for i = 1, 8 do out[i] = bit.tohex(state[i]) end
  return table.concat(out)
end

return M
