-- Extends the leases of mailboxes, counted from now, if they are still held.
--
-- ARGV[3]  lease   ARGV[4..]  of each actor, token
--
-- {1 if it is held, else 0, ..}
local answer = {}
for i = 4, #ARGV, 2 do
  local actor, K = ARGV[i], key('a', ARGV[i])
  local got = redis.call('HMGET', K, 't', 'u')
  local held = got[1] == ARGV[i + 1]
  if held then lasts({actor = actor, K = K, u = tonumber(got[2])}, now + ARGV[3]) end
  answer[#answer + 1] = held and 1 or 0
end
return answer
