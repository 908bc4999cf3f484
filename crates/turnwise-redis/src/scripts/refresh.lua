-- Extends queue entries.
--
-- ARGV[2]  lifetime   ARGV[3...]  tokens
--
-- {busy, standing of each...}: 0 nowhere, 1 queued, 2 holds
local till, any = now + ARGV[2], false
local answer = {busy()}
for i = 3, #ARGV do
  local token, standing = ARGV[i], 0
  if holding(token) then
    standing = 2
  elseif k and redis.call('ZSCORE', Q, token) then
    redis.call('HSET', K, 'a:' .. token, till)
    standing, any = 1, true
  end
  answer[#answer + 1] = standing
end
if any then
  keep(till)
  redis.call('PEXPIREAT', Q, math.ceil(till / 1000) + kept)
end
return answer
