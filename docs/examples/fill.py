#!/usr/bin/env python3
"""Writes a page into memcached, for larder to serve: Python's standard library is enough.

    fill.py SERVER KEY FILE [--type text/html] [--max-age 60] [--prefix P] [--namespace N] [--logs SERVER ...]

SERVER is host:port or unix:/path; KEY is such as http://example.com/list?page=2; FILE is - for standard input.
--logs names all servers of the fleet: so larder knows that the page is younger than the purges until now.
What the bytes mean is told in docs/fleet-envelope.md.
"""
import argparse
import email.utils
import hashlib
import re
import socket
import struct
import sys
import zlib

MAGIC, VERSION = b"\x93lrd", 1
KEY, FIELDS, KNOWN = 1, 2, 10


def envelope(key, fields, body, status=200, known=b""):
    """The bytes of a response: fields are pairs of names and values, body is bytes, known is of places_in_logs."""
    def section(tag, content):
        return struct.pack("<BI", tag, len(content)) + content

    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    sections = section(KEY, key.encode()) + section(FIELDS, lines.encode("latin-1"))
    sections += section(KNOWN, known) if known else b""
    length = 24 + len(sections) + 4
    head = struct.pack("<4sBBHIIQ", MAGIC, VERSION, 0, status, length, zlib.crc32(body), len(body))
    head += sections
    return head + struct.pack("<I", zlib.crc32(head)) + body


def with_namespace(key, namespace=None):
    """The full key: with the namespace in place of the host, if there is one."""
    return re.sub("(?<=://)[^/ ]*", lambda _: namespace, key, count=1) if namespace else key


def fleet_key(key, prefix=""):
    """The name under which memcached has a full key."""
    clean = re.fullmatch("[!-\"$-~]+", key) and len(prefix + key) <= 250
    return prefix + (key if clean else hashlib.md5(key.encode()).hexdigest())


def connect(server):
    """A connection to a server."""
    if server.startswith("unix:"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(5)
        connection.connect(server[5:])
    else:
        host, _, port = server.rpartition(":")
        connection = socket.create_connection((host.strip("[]"), int(port)), timeout=5)
    return connection


def places_in_logs(servers, prefix=""):
    """How far the purge logs of all servers go. Call it before the page is computed: all in it is younger then."""
    places = b""
    for server in servers:
        with connect(server) as connection:
            connection.sendall(f"get {prefix}!log:head\r\n".encode())
            lines = connection.makefile("rb")
            if lines.readline() != b"END\r\n":
                number = int(lines.readline())
                places += struct.pack("<QQ", number >> 24, number & 0xFFFFFF)
    return places


def put(server, name, value, expire):
    """Writes a value, or fails with what memcached said."""
    with connect(server) as connection:
        connection.sendall(f"set {name} 0 {expire} {len(value)}\r\n".encode() + value + b"\r\n")
        answer = connection.makefile("rb").readline()
    if answer != b"STORED\r\n":
        sys.exit(f"{server} said: {answer.decode(errors='replace').strip() or 'nothing'}")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ["server", "key", "file"]:
        options.add_argument(name)
    options.add_argument("--type", default="text/html; charset=utf-8")
    options.add_argument("--max-age", type=int, default=60)
    options.add_argument("--prefix", default="")
    options.add_argument("--namespace")
    options.add_argument("--logs", nargs="+", default=[], metavar="SERVER")
    given = options.parse_args()
    known = places_in_logs(given.logs, given.prefix)  # First: what is read from here on is younger.
    body = sys.stdin.buffer.read() if given.file == "-" else open(given.file, "rb").read()
    key = with_namespace(given.key, given.namespace)
    fields = [
        ("Content-Type", given.type),
        ("Cache-Control", f"max-age={given.max_age}"),
        ("Date", email.utils.formatdate(usegmt=True)),  # Its age counts from here.
    ]
    put(given.server, fleet_key(key, given.prefix), envelope(key, fields, body, known=known), given.max_age)


if __name__ == "__main__":
    main()
