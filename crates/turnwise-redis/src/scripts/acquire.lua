-- Takes a free place, or adds a queue entry.
--
-- ARGV[2]  token   ARGV[3]  lease   ARGV[4]  lifetime of the queue entry; absent: no queue entry
--
-- fence: granted, place 1 | {2, fence, place} granted | {1, ahead, busy} queued | {0, busy} busy | {-1} gone
local token, till, alive = ARGV[2], now + ARGV[3], tonumber(ARGV[4])
if redis.call('EXISTS', K .. ':x:' .. token) == 1 then return {-1} end
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
if not alive then return {0, busy()} end
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
