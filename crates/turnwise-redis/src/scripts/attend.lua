-- Takes the tick whose beginning is nearest, unless it was taken.
--
-- ARGV[2]  token   ARGV[3]  every   ARGV[4]  offset   ARGV[5]  lease   ARGV[6]  1: runs may overlap
--
-- {2, tick, fence} taken by this request | {1, tick, next} an earlier run is under way
-- {0, tick, next} taken by another request | {-1} gone
local token, every, till = ARGV[2], math.max(tonumber(ARGV[3]), 1), now + ARGV[5]
if redis.call('EXISTS', K .. ':x:' .. token) == 1 then return {-1} end
local since = math.max(now - ARGV[4], 0)
local tick = math.floor((since + math.floor(every / 2)) / every)
local left = (tick + 1) * every - since
local ticks = tonumber(redis.call('HGET', K, 'n')) or 0
local last = math.max(ticks - 1, 0)
local i = holding(token)
if i then return {2, last, g[i]} end
if ticks > tick then return {0, tick, left} end
if ARGV[6] ~= '1' and lease('first') then return {1, last, left} end
redis.call('HSET', K, 'n', tick + 1)
grant(1, token, till)
keep(now + 2 * every)
return {2, tick, f}
