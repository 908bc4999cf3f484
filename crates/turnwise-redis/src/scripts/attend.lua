-- Takes the tick whose beginning is nearest, unless it was taken.
--
-- KEYS[3]  exists if the request was given up for good
-- ARGV[5]  token   ARGV[6]  every   ARGV[7]  offset   ARGV[8]  lease   ARGV[9]  1: runs may overlap
--
-- {2, tick, fence} taken by this request | {1, tick, next} an earlier run is under way
-- {0, next} taken by another request | {-1} gone
if redis.call('EXISTS', KEYS[3]) == 1 then return {-1} end
local token, every, till = ARGV[5], math.max(tonumber(ARGV[6]), 1), now + ARGV[8]
local since = math.max(now - ARGV[7], 0)
local tick = math.floor((since + math.floor(every / 2)) / every)
local left = (tick + 1) * every - since
local ticks = tonumber(redis.call('HGET', K, 'n')) or 0
local last = math.max(ticks - 1, 0)
local i = holding(token)
if i then return {2, last, g[i]} end
if ticks > tick then return {0, left} end
if ARGV[9] ~= '1' and lease('first') then return {1, last, left} end
redis.call('HSET', K, 'n', tick + 1)
grant(1, token, till)
keep(now + 2 * every)
return {2, tick, f}
