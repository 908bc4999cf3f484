-- Takes a place from its holder.
--
-- ARGV[2]  place
--
-- {1} it was held | {0} it was free
local i = tonumber(ARGV[2])
if many then load(i) end
if not t[i] then return {0} end
tell(t[i], '-')
clear(i)
settle()
forget_soon()
return {1}
