"""Requests over HTTP/3 with libcurl (ngtcp2 and nghttp3), which shares no code with larder's, by the wheel of pycurl.

client.py CA PORT prints one line for each case. See tests/scenarios/http3_clients.rs.
"""

import io
import sys

import pycurl

AUTHORITY, PORT = sys.argv[1], int(sys.argv[2])
UPLOAD = b"u" * 1_000_000
NAMES = {pycurl.CURL_HTTP_VERSION_2_0: "2", pycurl.CURL_HTTP_VERSION_3: "3"}


def handle(path, version=pycurl.CURL_HTTP_VERSION_3ONLY):
    """A request, and the bytes of its response."""
    body, curl = io.BytesIO(), pycurl.Curl()
    curl.setopt(pycurl.URL, f"https://localhost:{PORT}{path}")
    curl.setopt(pycurl.RESOLVE, [f"localhost:{PORT}:127.0.0.1"])
    curl.setopt(pycurl.CAINFO, AUTHORITY)
    curl.setopt(pycurl.HTTP_VERSION, version)
    curl.setopt(pycurl.TIMEOUT, 60)
    curl.setopt(pycurl.WRITEDATA, body)
    return curl, body


def result(curl, body):
    """The version, the status, and the length of a response."""
    version = curl.getinfo(pycurl.INFO_HTTP_VERSION)
    return f"{NAMES.get(version, version)} {curl.getinfo(pycurl.RESPONSE_CODE)} {len(body.getvalue())}"


def one(case, path, *options):
    curl, body = handle(path)
    for option, value in options:
        curl.setopt(option, value)
    curl.perform()
    print(f"{case}: {result(curl, body)}")
    return body.getvalue()


def on_one_connection():
    curl, body = handle("/kept")
    curl.perform()
    first = curl.getinfo(pycurl.NUM_CONNECTS)
    curl.perform()
    print(f"on one connection: {result(curl, body)}, connections {first} {curl.getinfo(pycurl.NUM_CONNECTS)}")


def at_once():
    """Streams of one connection: the others wait until the first request knows that it has streams."""
    multi, all = pycurl.CurlMulti(), [handle("/large") for _ in range(20)]
    multi.setopt(pycurl.M_PIPELINING, 2)
    for curl, _ in all:
        curl.setopt(pycurl.PIPEWAIT, 1)
        multi.add_handle(curl)
    running = 1
    while running:
        running = multi.perform()[1]
        multi.select(1.0)
    results = {result(*it) for it in all}
    print(f"20 at once: {' and '.join(results)}, connections {sum(it[0].getinfo(pycurl.NUM_CONNECTS) for it in all)}")


def announced():
    """The response over TCP announces the port. pycurl lacks the option by which libcurl would follow it."""
    fields = []
    curl, body = handle("/kept", pycurl.CURL_HTTP_VERSION_2TLS)
    curl.setopt(pycurl.HEADERFUNCTION, fields.append)
    curl.perform()
    is_announced = f'alt-svc: h3=":{PORT}"; ma=3600\r\n'.encode() in fields
    print(f"over TCP: {result(curl, body)}, HTTP/3 is announced: {is_announced}")


one("a page", "/kept")
one("3 MB", "/large")
one("a range", "/large", (pycurl.RANGE, "100-299"))
one("HEAD", "/large", (pycurl.NOBODY, 1))
one("60 fields of 3,000 bytes", "/kept", (pycurl.HTTPHEADER, [f"x-{at}: {'v' * 3000}" for at in range(60)]))
sent = one("an upload", "/upload", (pycurl.POSTFIELDS, UPLOAD))
print(f"the upload comes back: {sent == UPLOAD}")
on_one_connection()
at_once()
announced()
