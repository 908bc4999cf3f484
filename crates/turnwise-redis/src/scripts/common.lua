-- What all steps begin with. See `record.rs`: this is the same machine.
--
-- KEYS[1]  record, a hash: f fence, r who let go last, n ticks, k tickets, x until when it is kept;
--          of each place i: ti token, empty if nobody holds it, ui until, negative if its request
--          has not come for it yet, gi fence; a:TOKEN until
--          when the seat of a waiting request is kept
-- KEYS[2]  queue, a sorted set: TOKEN by its ticket. Without k it is empty
-- ARGV[1]  channels of notices begin so; a client's number follows
-- ARGV[2]  so many places there are
-- ARGV[3]  so long a record outlives its holds, its queue and its ticks (ms)
-- ARGV[4]  fences that are given are greater than this
--
-- Times are microseconds on this server's clock.
local K, Q, channels, places = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local kept, above = tonumber(ARGV[3]), tonumber(ARGV[4])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local fields = {'f', 'r', 'k', 'x'}
for i = 1, places do
  local n = #fields
  fields[n + 1], fields[n + 2], fields[n + 3] = 't' .. i, 'u' .. i, 'g' .. i
end
local got = redis.call('HMGET', K, unpack(fields))
local f, r, k, x = tonumber(got[1]) or 0, got[2], got[3], tonumber(got[4]) or 0
local t, u, g, waits = {}, {}, {}, {}
for i = 1, places do
  t[i], u[i], g[i] = got[3 * i + 2], tonumber(got[3 * i + 3]) or 0, tonumber(got[3 * i + 4]) or 0
  if t[i] == '' then t[i] = false end
  if u[i] < 0 then u[i], waits[i] = -u[i], true end
end

-- A record outlives its holds, or by a tenth less. Fences go on above it also without.
local function expire_at(last)
  x = last
  redis.call('HSET', K, 'x', x)
  redis.call('PEXPIREAT', K, x)
end

local function keep(till)
  for i = 1, places do
    if t[i] then till = math.max(till, u[i]) end
  end
  local last = math.ceil(till / 1000) + kept
  if x < last - math.floor(kept / 10) then expire_at(last) end
end

-- What is let go long before its lease is over is kept no longer for that. Ticks are.
local function forget_soon()
  if k then return end
  for i = 1, places do
    if t[i] then return end
  end
  local last = math.ceil(now / 1000) + kept
  if x > last + math.floor(kept / 10) and redis.call('HEXISTS', K, 'n') == 0 then
    expire_at(last)
  end
end

local function tell(token, what)
  redis.call('PUBLISH', channels .. string.match(token, '^[^:]*'), what .. token)
end

-- The place of a request that holds; the first that nobody does.
local function holding(token)
  for i = 1, places do
    if t[i] == token then return i end
  end
end

local function free()
  for i = 1, places do
    if not t[i] then return i end
  end
end

local function grant(i, token, till, waiting)
  f = math.max(f + 1, now, above + 1)
  t[i], u[i], g[i], waits[i] = token, till, f, waiting
  redis.call('HSET', K, 't' .. i, token, 'u' .. i, waiting and -till or till, 'g' .. i, f, 'f', f)
  keep(till)
end

-- It lasts until then at least; what was kept until its request came is the request's now.
local function renew(i, till)
  if not waits[i] then till = math.max(u[i], till) end
  u[i], waits[i] = till, false
  redis.call('HSET', K, 'u' .. i, till)
  keep(till)
end

local function clear(i)
  redis.call('HSET', K, 't' .. i, '')
  t[i] = false
end

-- Leases that are over have ended; what nobody holds goes to the first whose seat is kept.
local function settle()
  for i = 1, places do
    if t[i] and u[i] <= now then clear(i) end
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

-- So long the first lease lasts that ends.
local function busy()
  local first
  for i = 1, places do
    if t[i] then first = math.min(first or u[i], u[i]) end
  end
  return (first or now) - now
end

settle()
