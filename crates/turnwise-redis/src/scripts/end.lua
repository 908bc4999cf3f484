-- Ends a job. Its place is clean and released, or it is quarantined.
--
-- ARGV[2]  token   ARGV[3]  time for which it is quarantined; 0: it is clean
-- ARGV[4]  time that copies of its requests may arrive (ms); absent: none will
--
-- 1 it was held until now | 0 it was not
local token, long, late = ARGV[2], tonumber(ARGV[3]), ARGV[4]
if late then redis.call('SET', K .. ':x:' .. token, 1, 'PX', late) end
local i = holding(token)
if not i then
  if redis.call('ZREM', Q, token) == 1 then redis.call('HDEL', K, 'a:' .. token) end
  return r == token and 1 or 0
end
if long > 0 then
  local name = 'quarantine:' .. i
  if many then
    redis.call('HDEL', K, 'p:' .. token)
    redis.call('HSET', K, 'p:' .. name, i)
  end
  t[i], waits[i] = name, false
  redis.call('HSET', K, 't' .. i, name, 'r', token)
  renew(i, now + long)
  return 1
end
redis.call('HDEL', K, 'd' .. i)
clear(i)
redis.call('HSET', K, 'r', token)
settle()
forget_soon()
shorten()
return 1
