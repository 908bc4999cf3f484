-- Takes a free place, or adds a queue entry.
--
-- KEYS[3]  exists if the request was given up for good
-- ARGV[5]  token   ARGV[6]  lease   ARGV[7]  lifetime of the queue entry; 0: no queue entry
--
-- {2, fence, place} granted | {1, ahead, busy} queued | {0, busy} busy | {-1} gone
if redis.call('EXISTS', KEYS[3]) == 1 then return {-1} end
local token, till, alive = ARGV[5], now + ARGV[6], tonumber(ARGV[7])
local i = holding(token)
if i then
  renew(i, till)
  return {2, g[i], i}
end
i = free()
if i then
  grant(i, token, till)
  return {2, f, i}
end
if alive == 0 then return {0, busy()} end
say()
-- The rest of a queue whose record is gone does not count.
if not k then redis.call('DEL', Q) end
local ahead = redis.call('ZRANK', Q, token)
if not ahead then
  ahead = redis.call('ZCARD', Q)
  redis.call('ZADD', Q, redis.call('HINCRBY', K, 'k', 1), token)
end
redis.call('HSET', K, 'a:' .. token, now + alive)
keep(now + alive)
redis.call('PEXPIREAT', Q, math.ceil((now + alive) / 1000) + kept)
return {1, ahead, busy()}
