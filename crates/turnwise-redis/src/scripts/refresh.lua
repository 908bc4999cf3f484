-- Keeps places in the queue.
--
-- ARGV[2]  so long   ARGV[3...]  tokens
--
-- {busy, place of each...}: 0 nowhere, 1 queued, 2 holds
local till = now + ARGV[2]
local answer = {busy()}
for i = 3, #ARGV do
  local token = ARGV[i]
  if t == token then
    answer[#answer + 1] = 2
  elseif redis.call('ZSCORE', Q, token) then
    redis.call('HSET', K, 'a:' .. token, till)
    answer[#answer + 1] = 1
  else
    answer[#answer + 1] = 0
  end
end
if t then
  keep(math.max(u, till))
  redis.call('PEXPIREAT', Q, math.ceil(math.max(u, till) / 1000) + 86400000)
end
return answer
