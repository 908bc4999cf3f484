-- Each request is an applicant of its own: run, thread, number.
local threads = 0
function setup(thread)
   threads = threads + 1
   thread:set("id", threads)
end
local number = 0
function request()
   number = number + 1
   return wrk.format("POST", "/applications", nil, "entrant " .. id .. " " .. number)
end
-- One line for bench.sh: requests, those not answered by 201, errors of sockets, microseconds,
-- and latencies in microseconds: median, 99 %, worst.
function done(summary, latency)
   local e = summary.errors
   io.write(string.format("raffle %d %d %d %d %d %d %d\n", summary.requests, e.status,
      e.connect + e.read + e.write + e.timeout, summary.duration,
      latency:percentile(50), latency:percentile(99), latency.max))
end
