-- Sends 16 requests in one write and waits for the 16 answers.
local batch
init = function(args)
  local requests = {}
  for i = 1, 16 do requests[i] = wrk.format() end
  batch = table.concat(requests)
end
request = function() return batch end
