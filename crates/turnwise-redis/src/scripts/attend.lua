-- Takes the tick that it is now, if nobody has.
--
-- KEYS[3]  there if the request was given up for good
-- ARGV[2]  token   ARGV[3]  every   ARGV[4]  offset   ARGV[5]  lease   ARGV[6]  1: runs may overlap
--
-- {2, tick, fence} taken by this | {1, tick, next} an earlier run is under way
-- {0, next} taken by somebody | {-1} gone
if redis.call('EXISTS', KEYS[3]) == 1 then return {-1} end
local token, every, lease = ARGV[2], math.max(tonumber(ARGV[3]), 1), tonumber(ARGV[5])
local since = math.max(now - ARGV[4], 0)
local tick, left = math.floor(since / every), every - since % every
local ticks = tonumber(redis.call('HGET', K, 'n')) or 0
local last = math.max(ticks - 1, 0)
if t == token then return {2, last, f} end
if ticks > tick then return {0, left} end
if t and ARGV[6] ~= '1' then return {1, last, left} end
redis.call('HSET', K, 'n', tick + 1)
grant(token, now + lease)
keep(math.max(u, now + 2 * every))
return {2, tick, f}
