-- The beginning of all steps. Implements the machine of `record.rs`.
--
-- KEYS[1]  record, a hash: f fence, b fence before the last grant, r token of the last release,
--          n ticks, k queue numbers, x until when it is kept, c number of places; of each place i:
--          ti token, empty if it is free, ui until, negative if its request has not picked it up,
--          gi fence; a:TOKEN until when the queue entry of a waiting request is kept; di the mark of
--          a job that has begun: see `begin.lua`. With several places also: m the highest one that
--          was ever given, p:TOKEN the place of a holder
-- ARGV[1]  number of places, as this client has it. Behind a colon: the lower bound of the fences
--          that are issued, exclusive, unless it is 0
--
-- Other keys of the object:
--   KEYS[1]:q        queue, a sorted set: TOKEN by its queue number. Without k it is empty
--   KEYS[1]:x:TOKEN  exists if the request was given up for good
--   KEYS[1]:u        held places of several, by the ends of their leases: a sorted set
--   KEYS[1]:b        released places of several, by their numbers: a sorted set
--
-- Constants before this text: `channels`, the prefix of the channels of notices, which a client's
-- number follows; `kept`, the time that a record outlives its holds, its queue and its ticks (ms).
-- `leaves` is the token that a step releases, if it is a release.
--
-- The record of one place is a string while it has no queue, no ticks and no jobs, which fast paths
-- read and write as a whole: '<ddddH' until when it is held, or 0; f; x; b, unless it is free; the
-- length of the holder's token. That token and r follow; of a free place r alone. It becomes a hash
-- here.
--
-- {-3, places} other clients, which hold or wait, use another number of places
--
-- Times are microseconds of this server's clock. Of several places only those are read that a step
-- needs, so its cost does not depend on their number.
local K = KEYS[1]
local Q = K .. ':q'
local asked, above = string.match(ARGV[1], '^(%d+):?(%d*)$')
asked, above = tonumber(asked), tonumber(above) or 0
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local whole = redis.call('MGET', K)[1]
if whole then
  local till, fence, last, before, n = struct.unpack('<ddddH', whole)
  redis.call('DEL', K)
  redis.call('HSET', K, 'f', fence, 'b', before, 'r', string.sub(whole, 35 + n), 'x', last, 'c', 1,
    't1', string.sub(whole, 35, 34 + n), 'u1', till, 'g1', fence)
  redis.call('PEXPIREAT', K, last)
end
local got = redis.call('HMGET', K, 'f', 'r', 'k', 'x', 'c', 'm', 't1', 'u1', 'g1')
local f, r, k, x = tonumber(got[1]) or 0, got[2], got[3], tonumber(got[4]) or 0
local known = tonumber(got[5])
local places = known or asked
local many, U, B, m = places > 1, K .. ':u', K .. ':b', tonumber(got[6])
local t, u, g, waits = {}, {}, {}, {}

local function place(i, token, till, fence)
  t[i], u[i], g[i] = token, tonumber(till) or 0, tonumber(fence) or 0
  if t[i] == '' then t[i] = false end
  if u[i] < 0 then u[i], waits[i] = -u[i], true end
end

-- Reads one of several places.
local function load(i)
  local of = redis.call('HMGET', K, 't' .. i, 'u' .. i, 'g' .. i)
  place(i, of[1], of[2], of[3])
end

if many then
  -- The rest of a record that is gone.
  if not m then redis.call('DEL', U, B) end
  m = m or 0
else
  place(1, got[7], got[8], got[9])
end

-- The end of the lease that ends first, or last; nothing if all places are free.
local function lease(which)
  if not many then return t[1] and u[1] end
  local i = which == 'first' and 0 or -1
  return tonumber(redis.call('ZRANGE', U, i, i, 'WITHSCORES')[2])
end

-- A record outlives its holds, or by a tenth less. Without it fences still go on above the clock.
local function expire_at(last)
  x = last
  redis.call('HSET', K, 'x', x)
  redis.call('PEXPIREAT', K, x)
  if many then
    redis.call('PEXPIREAT', U, x)
    redis.call('PEXPIREAT', B, x)
  end
end

local function keep(till)
  local last = math.ceil(math.max(till, lease('last') or 0) / 1000) + kept
  if x < last - math.floor(kept / 10) then expire_at(last) end
end

-- True if a job has begun in a place and has not ended. Few fields are left when all are free.
local function is_dirty()
  for _, field in ipairs(redis.call('HKEYS', K)) do
    if string.match(field, '^d%d+$') then return true end
  end
end

-- A release long before the end of the lease shortens the time that the record is kept. Ticks, and
-- places that are dirty, do not allow that.
local function forget_soon()
  if k or lease('first') then return end
  local last = math.ceil(now / 1000) + kept
  local long = x > last + math.floor(kept / 10)
  if long and redis.call('HEXISTS', K, 'n') == 0 and not is_dirty() then
    expire_at(last)
  end
end

local function tell(token, what)
  redis.call('PUBLISH', channels .. string.match(token, '^[^:]*'), what .. token)
end

-- The place of a token, if it holds one.
local function holding(token)
  if not many then return t[1] == token and 1 or nil end
  local i = tonumber(redis.call('HGET', K, 'p:' .. token))
  if i then load(i) end
  return i
end

local function free()
  if not many then return not t[1] and 1 or nil end
  if redis.call('ZCARD', U) >= places then return nil end
  return tonumber(redis.call('ZRANGE', B, 0, 0)[1]) or m + 1
end

-- Fixes the number of places.
local function say()
  if not known then
    known = places
    redis.call('HSET', K, 'c', known)
  end
end

local function grant(i, token, till, waiting)
  local before = f
  f = math.max(f + 1, now, above + 1)
  t[i], u[i], g[i], waits[i] = token, till, f, waiting
  say()
  redis.call('HSET', K, 't' .. i, token, 'u' .. i, waiting and -till or till, 'g' .. i, f, 'f', f,
    'b', before)
  if many then
    if i > m then
      m = i
      redis.call('HSET', K, 'm', m)
    end
    redis.call('HSET', K, 'p:' .. token, i)
    redis.call('ZREM', B, i)
    redis.call('ZADD', U, till, i)
    if x > 0 then redis.call('PEXPIREAT', U, x) end
  end
  keep(till)
end

-- Extends the lease to this time. The time of a grant that was not picked up yet is replaced.
local function renew(i, till)
  if not waits[i] then till = math.max(u[i], till) end
  u[i], waits[i] = till, false
  redis.call('HSET', K, 'u' .. i, till)
  if many then redis.call('ZADD', U, till, i) end
  keep(till)
end

local function clear(i)
  if many then
    redis.call('HDEL', K, 't' .. i, 'u' .. i, 'g' .. i, 'p:' .. t[i])
    redis.call('ZREM', U, i)
    redis.call('ZADD', B, i, i)
    if x > 0 then redis.call('PEXPIREAT', B, x) end
  else
    redis.call('HSET', K, 't' .. i, '')
  end
  t[i] = false
end

-- Expired leases end, and free places are granted to the first queue entries that are alive. The
-- lease of a holder that releases ends by that.
local function settle()
  if many then
    for _, i in ipairs(redis.call('ZRANGEBYSCORE', U, '-inf', now)) do
      load(i)
      if t[i] ~= leaves then clear(i) end
    end
  elseif t[1] and t[1] ~= leaves and u[1] <= now then
    clear(1)
  end
  local i = k and free()
  while i do
    local head = redis.call('ZPOPMIN', Q)[1]
    if not head then
      k = false
      redis.call('HDEL', K, 'k')
      return
    end
    local alive = tonumber(redis.call('HGET', K, 'a:' .. head)) or 0
    redis.call('HDEL', K, 'a:' .. head)
    if alive > now then
      grant(i, head, alive, true)
      tell(head, '+')
      i = free()
    end
  end
end

-- Makes the record of a place that was released a string again. It has these eight fields, or more
-- than a string keeps.
local function shorten()
  if not many and not t[1] and redis.call('HLEN', K) == 8 then
    x = math.ceil(now / 1000) + kept
    local whole = struct.pack('<ddddH', 0, f, x, 0, 0) .. redis.call('HGET', K, 'r')
    redis.call('SET', K, whole, 'PXAT', x)
  end
end

-- The time until the first lease ends.
local function busy()
  return (lease('first') or now) - now
end

settle()
if asked ~= places then
  if k or lease('first') then return {-3, places} end
  -- It is neither held nor waited for, so the number of places may change.
  redis.call('DEL', U, B)
  redis.call('HDEL', K, 'c', 'm', 't1', 'u1', 'g1')
  places, known, many, m = asked, false, asked > 1, 0
end
