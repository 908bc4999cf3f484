-- Lists dead letters, the oldest first.
--
-- ARGV[3]  without as many   ARGV[4]  as many at most
--
-- {how many in all, of each actor, id, name, body, attempts, why}
local answer = {redis.call('ZCARD', T .. ':y')}
if ARGV[4] == '0' then return answer end
local names = redis.call('ZRANGE', T .. ':y', ARGV[3], ARGV[3] + ARGV[4] - 1)
for _, name in ipairs(names) do
  local dead = cmsgpack.unpack(redis.call('HGET', T .. ':x', name))
  local message = cmsgpack.unpack(dead[5])
  for _, part in ipairs({dead[1], dead[2], message[1], message[2], dead[3], dead[4]}) do
    answer[#answer + 1] = part
  end
end
return answer
