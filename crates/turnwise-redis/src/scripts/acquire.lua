-- Takes the lock if it is free, or a place in the queue.
--
-- KEYS[3]  there if the request was given up for good
-- ARGV[2]  token   ARGV[3]  lease   ARGV[4]  so long the place is kept; 0: no place
--
-- {2, fence} granted | {1, ahead, busy} queued | {0, busy} busy | {-1} gone
if redis.call('EXISTS', KEYS[3]) == 1 then return {-1} end
local token, till, alive = ARGV[2], now + ARGV[3], tonumber(ARGV[4])
if not t then
  grant(token, till)
elseif t == token then
  redis.call('HSET', K, 'u', till)
  keep(till)
elseif alive == 0 then
  return {0, busy()}
else
  local ahead = redis.call('ZRANK', Q, token)
  if not ahead then
    ahead = redis.call('ZCARD', Q)
    redis.call('ZADD', Q, redis.call('HINCRBY', K, 'k', 1), token)
  end
  redis.call('HSET', K, 'a:' .. token, now + alive)
  keep(math.max(u, now + alive))
  redis.call('PEXPIREAT', Q, math.ceil(math.max(u, now + alive) / 1000) + 86400000)
  return {1, ahead, busy()}
end
return {2, f}
