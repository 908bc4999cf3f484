-- Returns mailboxes that are due.
--
-- ARGV[3]  worker   ARGV[4]  time that it waits for a notice   ARGV[5]  most   ARGV[6]  grip
--
-- {time until the next, or -1, actors..}
local D, W = T .. ':due', T .. ':w'
local actors = redis.call('ZRANGEBYSCORE', D, '-inf', now, 'LIMIT', 0, ARGV[5])
for _, actor in ipairs(actors) do redis.call('ZADD', D, now + ARGV[6], actor) end
if #actors == 0 then
  redis.call('ZADD', W, now + ARGV[4], ARGV[3])
else
  redis.call('ZREM', W, ARGV[3])
end
local next = redis.call('ZRANGE', D, 0, 0, 'WITHSCORES')[2]
return {next and math.max(tonumber(next) - now, 0) or -1, unpack(actors)}
