-- Reports progress, and takes the next messages or releases the mailbox.
--
-- ARGV[3]  actor   ARGV[4]  fence   ARGV[5]  step   ARGV[6]  time that outcomes are kept (ms)
-- ARGV[7]  '1' if there is a state   ARGV[8]  state
-- ARGV[9]  'f' an attempt has failed, 'x' for good, or ''   ARGV[10] why   ARGV[11] again after
-- ARGV[12] 'n' takes the next   ARGV[13] most   ARGV[14] lease
--          'l' releases         ARGV[13] time until workers check it
--          'p' puts it off      ARGV[13] time during which it is not claimed
-- ARGV[15..]  the reply to each handled message
--
-- {2, ..} the next messages | {1, left, wait} released | {0} lost
local a, step, keep = load(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[6])
local this = ARGV[4] .. ' ' .. ARGV[5]
if not a.t or a.f ~= tonumber(ARGV[4]) then
  if a.l == this then return {1, len(a), math.max(a.y - now, 0)} end
  return {0}
end
if a.s == step then
  if ARGV[12] == 'n' then lasts(a, now + ARGV[14]) end
  return hand(a, false)
end
if a.s + 1 ~= step then return {0} end
local ids, messages = pop(a, #ARGV - 14)
for i, id in ipairs(ids) do ended(a, id, messages[i], 'd' .. ARGV[i + 14], keep) end
if ARGV[7] == '1' then redis.call('SET', key('s', a.actor), ARGV[8]) end
local put_off = false
if ARGV[9] ~= '' then
  a.c = a.c + 1
  if ARGV[9] == 'f' then
    a.b, a.y, put_off = math.max(a.b, 1), now + ARGV[11], true
  else
    bury(a, ARGV[10], keep)
  end
end
if ARGV[12] == 'p' then a.y = math.max(a.y, now + ARGV[13]) end
if ARGV[12] == 'n' and not put_off and len(a) > 0 then
  a.s, a.h, a.u = step, most_of(a, tonumber(ARGV[13])), math.max(a.u, now + ARGV[14])
  save(a)
  redis.call('ZADD', T .. ':due', a.u, a.actor)
  return hand(a, false)
end
a.l = this
local wait = 0
if ARGV[12] == 'l' and not put_off then wait = tonumber(ARGV[13]) end
let_go(a, wait)
save(a)
return {1, len(a), math.max(a.y - now, 0)}
