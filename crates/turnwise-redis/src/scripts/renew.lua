-- Holds for so long from now, if it still holds.
--
-- ARGV[2]  token   ARGV[3]  lease
--
-- {1} holds | {0} lost
if t ~= ARGV[2] then return {0} end
redis.call('HSET', K, 'u', now + ARGV[3])
keep(now + ARGV[3])
return {1}
