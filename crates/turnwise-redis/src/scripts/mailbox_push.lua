-- Stores a message, and claims the mailbox if it has no drainer.
--
-- ARGV[3]  actor   ARGV[4]  id   ARGV[5]  name   ARGV[6]  body   ARGV[7]  asker, or ''
-- ARGV[8]  token of the claim, or ''   ARGV[9]  lease   ARGV[10]  most   ARGV[11]  attempts
-- ARGV[12] time that the outcome of a dead letter is kept (ms)   ARGV[13] delay
--
-- {0, ahead, busy} stored | {2, ..} claimed | {3, kind, text, number, number} known
local a, id, token = load(ARGV[3]), ARGV[4], ARGV[8]
local before = outcome(a, id)
if before[1] ~= 0 then
  -- The answer to an earlier copy may have been lost, which has claimed the mailbox.
  if before[1] <= 2 and token ~= '' and a.t == token then
    lasts(a, now + ARGV[9])
    return hand(a, true)
  end
  return {3, unpack(before)}
end
if not said then redis.call('SET', KEYS[1], shards) end
redis.call('HSET', a.B, id, cmsgpack.pack({ARGV[5], ARGV[6], ARGV[7]}))
if ARGV[13] ~= '0' then
  local ahead = len(a)
  redis.call('ZADD', a.L, now + ARGV[13], id)
  first_later(a)
  save(a)
  if ahead == 0 then due_later(a) end
  return {0, ahead, tonumber(ARGV[13])}
end
local ahead = redis.call('RPUSH', a.M, id) - 1
if token ~= '' then
  local answer = claim(a, token, tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]),
    tonumber(ARGV[12]))
  if answer[1] == 2 then return answer end
end
-- With other messages, or a drainer, the mailbox does not expire, and nothing of it has changed.
if ahead == 0 and not a.t then save(a) end
is_due(a)
return {0, ahead, busy(a)}
