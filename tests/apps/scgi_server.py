"""The `scgi` server of PyPI (its author made the protocol) on a port of its own, which it writes into a file: answers with the variables and the
length of the body as JSON, `/large` with 3 MB, and breaks off at `/broken`."""
import json
import os
import socket
import sys

from scgi.scgi_server import SCGIServer
from scgi.util import SCGIHandler


class Handler(SCGIHandler):
    def produce(self, env, bodysize, input, output):
        body = input.read(bodysize)
        path = env["PATH_INFO"]
        if path == "/broken":
            raise SystemExit
        head = "Status: 200 OK\r\nContent-Type: application/json\r\nCache-Control: %s\r\n\r\n"
        output.write((head % ("max-age=60" if path == "/cached" else "no-store")).encode())
        told = dict(env, body=len(body), process=os.getpid(), order=list(env)[:2])
        output.write(b"x" * 3_000_000 if path == "/large" else json.dumps(told).encode())


listener = socket.create_server(("127.0.0.1", 0))
with open("port.new", "w") as file:
    file.write(str(listener.getsockname()[1]))
os.rename("port.new", "port")
SCGIServer(Handler, max_children=int(sys.argv[1])).serve_on_socket(listener)
