-- The beginning of all steps of an admission. Implements the machine of `admission_record.rs`.
--
-- KEYS[1]  admission, a hash: l limit, c closed, f fence, n the highest place ever given, k queue
--          numbers
-- KEYS[2]  entries, a hash by applicant: 'q ALIVE TOKEN' waits, 'r PLACE FENCE UNTIL TOKEN' has
--          reserved a place, 'w PLACE FENCE TOKEN' is admitted
-- KEYS[3]  queue, a sorted set: applicants by their queue numbers
-- KEYS[4]  leases, a sorted set: applicants by the ends of their reservations
-- KEYS[5]  places that were released, a sorted set by their numbers
-- KEYS[6]  admitted applicants, a list in the order of the rows
-- KEYS[7]  rows, a hash by applicant
-- ARGV[1]  prefix of the channels of notices; a client's number follows
-- ARGV[2]  number of places
--
-- Times are microseconds of this server's clock. Nothing here expires: a row is permanent.
local K, E, Q, U, B, W, D = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local channels, limit = ARGV[1], tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local got = redis.call('HMGET', K, 'l', 'c', 'f', 'n')
local l, shut, f, n = tonumber(got[1]) or 0, got[2], tonumber(got[3]) or 0, tonumber(got[4]) or 0
-- {-2, limit} other clients use another limit
if l ~= 0 and l ~= limit then return {-2, l} end

local function tell(token)
  redis.call('PUBLISH', channels .. string.match(token, '^[^:]*'), '+' .. token)
end

local function entry(applicant)
  local text = redis.call('HGET', E, applicant)
  if not text then return nil end
  local kind = string.sub(text, 1, 1)
  local e = {kind = kind}
  if kind == 'q' then
    e.alive, e.token = string.match(text, '^q (%d+) (.*)$')
    e.alive = tonumber(e.alive)
  elseif kind == 'r' then
    e.place, e.fence, e.till, e.token = string.match(text, '^r (%d+) (%d+) (%d+) (.*)$')
  else
    e.place, e.fence, e.token = string.match(text, '^w (%d+) (%d+) (.*)$')
  end
  e.place, e.fence = tonumber(e.place), tonumber(e.fence)
  return e
end

local function closed()
  return shut or l ~= 0 and redis.call('LLEN', W) >= l
end

local function has_place()
  return n < l or redis.call('ZCARD', B) > 0
end

-- Takes a free place, and returns it with its fence.
local function new_place()
  f = math.max(f + 1, now)
  local place = tonumber(redis.call('ZPOPMIN', B)[1])
  if not place then
    n = n + 1
    place = n
  end
  redis.call('HSET', K, 'f', f, 'n', n)
  return place, f
end

-- Adds a queue entry, or extends it to this time.
local function enqueue(applicant, token, alive)
  redis.call('HSET', E, applicant, string.format('q %d %s', alive, token))
end

-- Reserves a place until this time.
local function reserve(applicant, token, place, fence, till)
  redis.call('HSET', E, applicant, string.format('r %d %d %d %s', place, fence, till, token))
  redis.call('ZADD', U, till, applicant)
end

local function give_back(applicant, place)
  redis.call('ZREM', U, applicant)
  redis.call('HDEL', E, applicant)
  redis.call('ZADD', B, place, place)
end

-- Expired leases end, and a free place is reserved for the first queue entry that is alive. If no
-- place can be released any more, the waiters are dismissed.
local function settle()
  for _, applicant in ipairs(redis.call('ZRANGEBYSCORE', U, '-inf', now)) do
    give_back(applicant, entry(applicant).place)
  end
  local over = closed()
  while over or has_place() do
    local head = redis.call('ZPOPMIN', Q)[1]
    if not head then return end
    local e = entry(head)
    redis.call('HDEL', E, head)
    if over then
      tell(e.token)
    elseif e.alive > now then
      local place, fence = new_place()
      reserve(head, e.token, place, fence, e.alive)
      tell(e.token)
    end
  end
end

local function write(applicant, token, place, fence, row)
  redis.call('ZREM', U, applicant)
  redis.call('HSET', E, applicant, string.format('w %d %d %s', place, fence, token))
  redis.call('RPUSH', W, applicant)
  redis.call('HSET', D, applicant, row)
  settle()
  return {3, place, fence}
end

-- The time until the first lease ends.
local function busy()
  local first = redis.call('ZRANGE', U, 0, 0, 'WITHSCORES')[2]
  return (tonumber(first) or now) - now
end

settle()
