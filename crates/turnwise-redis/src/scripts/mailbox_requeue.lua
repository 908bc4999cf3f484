-- Returns a dead letter to its mailbox, behind all messages; or deletes it.
--
-- ARGV[3]  actor   ARGV[4]  id   ARGV[5]  '1': return it to its mailbox
--
-- {1} there was one | {0} there was none
local name = named(ARGV[3], ARGV[4])
local dead = redis.call('HGET', T .. ':x', name)
if not dead then return {0} end
redis.call('HDEL', T .. ':x', name)
redis.call('ZREM', T .. ':y', name)
if ARGV[5] == '1' then
  redis.call('DEL', T .. ':o:' .. name)
  local a = load(ARGV[3])
  redis.call('RPUSH', a.M, ARGV[4])
  redis.call('HSET', a.B, ARGV[4], cmsgpack.unpack(dead)[5])
  save(a)
  is_due(a)
end
return {1}
