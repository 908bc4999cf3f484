-- Returns a snapshot of a mailbox.
--
-- ARGV[3]  actor
--
-- {waiting, attempts, fence, token or '', left, 1 if there is a state, state, delayed}
local a = load(ARGV[3])
local state = redis.call('GET', key('s', a.actor))
local held = drained(a)
local t, left = held and a.t or '', held and a.u - now or 0
return {len(a), a.c, a.f, t, left, state and 1 or 0, state or '', redis.call('ZCARD', a.L)}
