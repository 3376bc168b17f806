-- A URL of its own for each request, also of later turns.
local number = os.time() * 1000000
request = function()
  number = number + 1
  return wrk.format("GET", string.format("/page.html?%.0f", number))
end
