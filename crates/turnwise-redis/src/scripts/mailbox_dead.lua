-- Returns dead letters, the oldest first.
--
-- ARGV[3]  number to skip   ARGV[4]  maximum number
--
-- {number of all, then actor, id, name, body, attempts, error of each}
local answer = {redis.call('ZCARD', T .. ':y')}
if ARGV[4] == '0' then return answer end
local names = redis.call('ZRANGE', T .. ':y', ARGV[3], ARGV[3] + ARGV[4] - 1)
for _, name in ipairs(names) do
  local dead = redis.call('HGET', T .. ':x', name)
  -- There is none if it was deleted by hand.
  if dead then
    dead = cmsgpack.unpack(dead)
    local message = cmsgpack.unpack(dead[5])
    for _, part in ipairs({dead[1], dead[2], message[1], message[2], dead[3], dead[4]}) do
      answer[#answer + 1] = part
    end
  end
end
return answer
