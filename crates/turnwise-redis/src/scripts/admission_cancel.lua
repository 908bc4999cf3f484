-- Releases a reserved place, or removes a queue entry.
--
-- KEYS[8]  marks a request that was given up for good
-- ARGV[3]  token   ARGV[4]  applicant   ARGV[5]  time that its copies may arrive (ms); 0: none
--
-- {3, place, fence} admitted | {0} it has nothing now
local token, applicant, late = ARGV[3], ARGV[4], tonumber(ARGV[5])
if late > 0 then redis.call('SET', KEYS[8], 1, 'PX', late) end
local e = entry(applicant)
if e and e.token == token then
  if e.kind == 'w' then return {3, e.place, e.fence} end
  if e.kind == 'r' then
    give_back(applicant, e.place)
    settle()
  else
    redis.call('HDEL', E, applicant)
    redis.call('ZREM', Q, applicant)
  end
end
return {0}
