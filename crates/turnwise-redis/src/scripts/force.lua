-- Takes a place away from its holder.
--
-- ARGV[5]  place
--
-- {1} somebody held it | {0} nobody did
local i = tonumber(ARGV[5])
if many then load(i) end
if not t[i] then return {0} end
tell(t[i], '-')
clear(i)
settle()
forget_soon()
return {1}
