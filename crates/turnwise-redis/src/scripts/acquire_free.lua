-- The fast path of `acquire.lua`, for one place that is free and has no waiters. It reads only what
-- that needs. All other cases fall through to the general path below.
local got = redis.call('HMGET', KEYS[1], 'f', 'x', 'c', 'k', 't1', 'u1')
if ARGV[2] == '1' and not got[4] and (not got[3] or got[3] == '1') then
  local clock = redis.call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  local is_free = not got[5] or got[5] == '' or math.abs(tonumber(got[6])) <= now
  if is_free and redis.call('EXISTS', KEYS[3]) == 0 then
    local f = math.max((tonumber(got[1]) or 0) + 1, now, ARGV[4] + 1)
    local till, kept, fence = now + ARGV[6], tonumber(ARGV[3]), string.format('%.0f', f)
    local last = math.ceil(till / 1000) + kept
    if got[3] and got[2] and tonumber(got[2]) >= last - math.floor(kept / 10) then
      redis.call('HSET', KEYS[1], 't1', ARGV[5], 'u1', till, 'g1', fence, 'f', fence)
    else
      redis.call('HSET', KEYS[1], 't1', ARGV[5], 'u1', till, 'g1', fence, 'f', fence, 'c', 1,
        'x', last)
      redis.call('PEXPIREAT', KEYS[1], last)
    end
    return {2, f, 1}
  end
end
