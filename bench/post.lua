-- wrk: POST the file BODY, of type CONTENT_TYPE (default application/json), and end with one line of results.
--
--   BODY=logits.f32 CONTENT_TYPE=application/octet-stream wrk -t1 -c4 -d10s -s bench/post.lua \
--       'http://127.0.0.1:8090/sample?vocab_size=128256&temperature=0.8&top_k=40'

local path = assert(os.getenv("BODY"), "BODY names the file to send")
local file = assert(io.open(path, "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
wrk.headers["Content-Type"] = os.getenv("CONTENT_TYPE") or "application/json"
file:close()

function done(summary, latency)
   local errors = summary.errors
   local seconds = summary.duration / 1e6
   io.write(string.format(
      "%d requests in %.3f s: %.1f a second, p50 %.3f ms, p99 %.3f ms, %d not answered 200, %d socket errors\n",
      summary.requests, seconds, summary.requests / seconds,
      latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, errors.status,
      errors.connect + errors.read + errors.write + errors.timeout))
end
