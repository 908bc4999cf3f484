-- Withdraws a message that no drainer has begun.
--
-- ARGV[3]  actor   ARGV[4]  id   ARGV[5]  '1': it may be on its way
-- ARGV[6]  time that the withdrawal is remembered (ms)
-- ARGV[7]  the only asker whose message is withdrawn; or ''
--
-- {kind, text, number, number}: see `outcome`
local a, id = load(ARGV[3]), ARGV[4]
local before = outcome(a, id)
local message = ARGV[7] ~= '' and redis.call('HGET', a.B, id)
if message and cmsgpack.unpack(message)[3] ~= ARGV[7] then return before end
if before[1] == 1 then
  if before[3] < math.max(a.b, a.t and a.h or 0) then return before end
  redis.call('LREM', a.M, 1, id)
  redis.call('HDEL', a.B, id)
  if len(a) == 0 then
    due_later(a)
    save(a)
  end
elseif before[1] == 6 then
  redis.call('ZREM', a.L, id)
  redis.call('HDEL', a.B, id)
  first_later(a)
  if len(a) == 0 then
    due_later(a)
    save(a)
  end
elseif before[1] ~= 0 or ARGV[5] ~= '1' then
  return before
end
keep_outcome(a.actor, id, 'w', tonumber(ARGV[6]))
return {5, '', 0, 0}
