-- Writes a row, or reserves a place, if one is free. Otherwise adds a queue entry.
--
-- KEYS[8]  exists if the request was given up for good
-- ARGV[3]  token   ARGV[4]  applicant   ARGV[5]  lifetime of the queue entry; 0: no queue entry
-- ARGV[6]  'w'     ARGV[7]  row         or 'r', and the lease of the reservation
--
-- {3, place, fence} admitted | {2, place, fence} reserved | {1, ahead, busy} queued | {7, busy}
-- busy
-- {0, limit} closed | {4, place} admitted by another request | {5, place} another has reserved a
-- place
-- {6} another waits | {-1} gone
if redis.call('EXISTS', KEYS[8]) == 1 then return {-1} end
local token, applicant, alive, want = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
if l == 0 then
  l = limit
  redis.call('HSET', K, 'l', l)
end
local e = entry(applicant)
if e then
  local mine = e.token == token
  if e.kind == 'w' then
    if mine then return {3, e.place, e.fence} end
    return {4, e.place}
  end
  if e.kind == 'r' then
    if not mine then return {5, e.place} end
    if want == 'w' then return write(applicant, token, e.place, e.fence, ARGV[7]) end
    reserve(applicant, token, e.place, e.fence, now + ARGV[7])
    return {2, e.place, e.fence}
  end
  if mine then
    if alive > 0 then enqueue(applicant, token, now + alive) end
  elseif e.alive > now then
    return {6}
  else
    -- The request of that queue entry is gone.
    redis.call('HDEL', E, applicant)
    redis.call('ZREM', Q, applicant)
  end
end
if closed() then return {0, l} end
if has_place() then
  local place, fence = new_place()
  if want == 'w' then return write(applicant, token, place, fence, ARGV[7]) end
  reserve(applicant, token, place, fence, now + ARGV[7])
  return {2, place, fence}
end
if alive == 0 then return {7, busy()} end
local ahead = redis.call('ZRANK', Q, applicant)
if not ahead then
  ahead = redis.call('ZCARD', Q)
  redis.call('ZADD', Q, redis.call('HINCRBY', K, 'k', 1), applicant)
  enqueue(applicant, token, now + alive)
end
return {1, ahead, busy()}
