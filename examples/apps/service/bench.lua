-- 1 of 8 requests looks at a basket, the others change one. Sessions and products are drawn by Zipf's
-- law. With IN_A_ROW, each request is for a session of its own.
local function env(name, default) return tonumber(os.getenv(name) or default) end
local sessions, skew = env("SESSIONS", 10000), env("SKEW", 0.99)
local products, product_skew = env("PRODUCTS", 2000), env("PRODUCT_SKEW", 0.8)
-- Sums of the weights: a draw is a search in them.
local function zipf(n, s)
   local sums, sum = {}, 0
   for k = 1, n do
      sum = sum + 1 / k ^ s
      sums[k] = sum
   end
   return function()
      local at, low, high = math.random() * sum, 1, n
      while low < high do
         local middle = math.floor((low + high) / 2)
         if sums[middle] < at then low = middle + 1 else high = middle end
      end
      return low
   end
end
local threads = 0
function setup(thread)
   threads = threads + 1
   thread:set("id", threads)
end
local session, product
function init()
   math.randomseed(id)
   session, product = zipf(sessions, skew), zipf(products, product_skew)
end
local number = 0
function request()
   number = number + 1
   if os.getenv("IN_A_ROW") then
      return wrk.format("POST", "/sessions/n" .. number .. "/items", nil, '{"product": 1}')
   end
   local path = "/sessions/s" .. session()
   if number % 8 == 0 then
      return wrk.format("GET", path)
   end
   return wrk.format("POST", path .. "/items", nil, '{"product": ' .. product() .. ', "count": 1}')
end
-- One line for bench.sh: requests, those answered by an error, errors of sockets, microseconds, and
-- latencies in microseconds: median, 99 %, 99.9 %, longest.
function done(summary, latency)
   local e = summary.errors
   io.write(string.format("service %d %d %d %d %d %d %d %d\n", summary.requests, e.status,
      e.connect + e.read + e.write + e.timeout, summary.duration, latency:percentile(50),
      latency:percentile(99), latency:percentile(99.9), latency.max))
end
