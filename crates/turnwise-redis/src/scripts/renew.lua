-- Extends a hold to this lease from now at least, if it still holds.
--
-- ARGV[5]  token   ARGV[6]  lease
--
-- {1} holds | {0} lost
local i = holding(ARGV[5])
if not i then return {0} end
renew(i, now + ARGV[6])
return {1}
