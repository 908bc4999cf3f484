-- What all steps begin with. See `record.rs`: this is the same machine.
--
-- KEYS[1]  record, a hash: f fence, r who let go last, n ticks, k tickets; of each place i that is
--          held: ti token, ui until, gi fence; a:TOKEN until when the seat of a waiting request
--          is kept
-- KEYS[2]  queue, a sorted set: TOKEN by its ticket
-- ARGV[1]  channels of notices begin so; a client's number follows
-- ARGV[2]  so many places there are
--
-- Times are microseconds on this server's clock.
local K, Q, channels, places = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local fields = {'f', 'r'}
for i = 1, places do
  local n = #fields
  fields[n + 1], fields[n + 2], fields[n + 3] = 't' .. i, 'u' .. i, 'g' .. i
end
local got = redis.call('HMGET', K, unpack(fields))
local f, r = tonumber(got[1]) or 0, got[2]
local t, u, g = {}, {}, {}
for i = 1, places do
  t[i], u[i], g[i] = got[3 * i], tonumber(got[3 * i + 1]) or 0, tonumber(got[3 * i + 2]) or 0
end

-- A record outlives its holds by a day. Fences go on above it also without.
local function keep(till)
  for i = 1, places do
    if t[i] then till = math.max(till, u[i]) end
  end
  redis.call('PEXPIREAT', K, math.ceil(till / 1000) + 86400000)
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

local function grant(i, token, till)
  f = math.max(f + 1, now)
  t[i], u[i], g[i] = token, till, f
  redis.call('HSET', K, 't' .. i, token, 'u' .. i, till, 'g' .. i, f, 'f', f)
  keep(till)
end

local function renew(i, till)
  u[i] = till
  redis.call('HSET', K, 'u' .. i, till)
  keep(till)
end

local function clear(i)
  redis.call('HDEL', K, 't' .. i, 'u' .. i, 'g' .. i)
  t[i] = false
end

-- Leases that are over have ended; what nobody holds goes to the first whose seat is kept.
local function settle()
  for i = 1, places do
    if t[i] and u[i] <= now then clear(i) end
  end
  local i = free()
  while i do
    local head = redis.call('ZPOPMIN', Q)[1]
    if not head then return end
    local alive = tonumber(redis.call('HGET', K, 'a:' .. head)) or 0
    redis.call('HDEL', K, 'a:' .. head)
    if alive > now then
      grant(i, head, alive)
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
