-- Returns a quarantined place to the pool. It is dirty.
--
-- ARGV[2]  place
--
-- {1} it was quarantined | {0} it was not
local i = tonumber(ARGV[2])
if many then load(i) end
if t[i] ~= 'quarantine:' .. i then return {0} end
clear(i)
settle()
return {1}
