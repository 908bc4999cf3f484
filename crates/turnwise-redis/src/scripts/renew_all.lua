-- Extends several holds, each of another record, to this lease from now at least.
--
-- KEYS[i]  record of the i-th hold: see `common.lua`. Keys behind them are not used
-- ARGV[1]  lease   ARGV[2]  time that a record outlives its holds (ms)
-- ARGV[2 * i + 1]  place   ARGV[2 * i + 2]  token
--
-- {held...}: 1 it holds, 0 it no longer holds
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local till, kept = now + ARGV[1], tonumber(ARGV[2])

local function renew_string(K, whole, place, token)
  local u, f, x, _, n = struct.unpack('<ddddH', whole)
  if place ~= '1' or string.sub(whole, 35, 34 + n) ~= token or u <= now then return 0 end
  u = math.max(u, till)
  x = math.ceil(u / 1000) + kept
  whole = struct.pack('<ddd', u, f, x) .. string.sub(whole, 25)
  redis.call('SET', K, whole, 'PXAT', x)
  return 1
end

local function renew_hash(K, place, token)
  local got = redis.call('HMGET', K, 't' .. place, 'u' .. place, 'x', 'c')
  local u, x = tonumber(got[2]) or 0, tonumber(got[3]) or 0
  if got[1] ~= token or math.abs(u) <= now then return 0 end
  u = math.max(u, till)
  redis.call('HSET', K, 'u' .. place, u)
  local many = (tonumber(got[4]) or 1) > 1
  if many then redis.call('ZADD', K .. ':u', u, place) end
  local last = math.ceil(u / 1000) + kept
  if x < last - math.floor(kept / 10) then
    redis.call('HSET', K, 'x', last)
    redis.call('PEXPIREAT', K, last)
    if many then
      redis.call('PEXPIREAT', K .. ':u', last)
      redis.call('PEXPIREAT', K .. ':b', last)
    end
  end
  return 1
end

local answer = {}
for i = 1, #ARGV / 2 - 1 do
  local K, place, token = KEYS[i], ARGV[2 * i + 1], ARGV[2 * i + 2]
  local whole = redis.call('MGET', K)[1]
  answer[i] = whole and renew_string(K, whole, place, token) or renew_hash(K, place, token)
end
return answer
