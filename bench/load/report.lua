-- Prints what wrk counted as one line that is easy to read back. Microseconds and bytes.
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %d %d %d %d %d %d %d %d\n", summary.requests, summary.duration,
    summary.bytes, e.connect, e.read, e.write, e.status, e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
