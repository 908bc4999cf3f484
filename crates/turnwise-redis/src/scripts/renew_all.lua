-- Extends several holds, each of another record, to this lease from now at least.
--
-- KEYS[i]  record of the i-th hold. Keys behind them are not used
-- ARGV[1]  lease   ARGV[2]  time that a record outlives its holds (ms)
-- ARGV[2 * i + 1]  place   ARGV[2 * i + 2]  token
--
-- {held...}: 1 it holds, 0 it no longer holds
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local till, kept = now + ARGV[1], tonumber(ARGV[2])
local answer = {}
for i = 1, #ARGV / 2 - 1 do
  local place, token, held = ARGV[2 * i + 1], ARGV[2 * i + 2], 0
  local got = redis.call('HMGET', KEYS[i], 't' .. place, 'u' .. place, 'x', 'c')
  local u, x = tonumber(got[2]) or 0, tonumber(got[3]) or 0
  if got[1] == token and math.abs(u) > now then
    u, held = math.max(u, till), 1
    redis.call('HSET', KEYS[i], 'u' .. place, u)
    local many = (tonumber(got[4]) or 1) > 1
    if many then redis.call('ZADD', KEYS[i] .. ':u', u, place) end
    local last = math.ceil(u / 1000) + kept
    if x < last - math.floor(kept / 10) then
      redis.call('HSET', KEYS[i], 'x', last)
      redis.call('PEXPIREAT', KEYS[i], last)
      if many then
        redis.call('PEXPIREAT', KEYS[i] .. ':u', last)
        redis.call('PEXPIREAT', KEYS[i] .. ':b', last)
      end
    end
  end
  answer[i] = held
end
return answer
