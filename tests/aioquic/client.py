"""Requests over HTTP/3 with aioquic, an implementation that shares no code with larder's, and violations of the protocol.

client.py CA PORT prints one line for each case. See tests/scenarios/http3_clients.rs.
"""

import asyncio
import ssl
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

AUTHORITY, PORT = sys.argv[1], int(sys.argv[2])
TIMEOUT = 60


def literal(prefix, bits, text):
    """A string of QPACK without Huffman coding (RFC 9204 section 4.1)."""
    most = (1 << bits) - 1
    if len(text) < most:
        return bytes([prefix | len(text)]) + text
    length, rest = [], len(text) - most
    while rest >= 128:
        length.append(rest % 128 | 128)
        rest //= 128
    return bytes([prefix | most, *length, rest]) + text


def headers(fields):
    """A HEADERS frame of literals: the encoder of aioquic takes 4 KB at most."""
    block = b"\0\0" + b"".join(literal(0x20, 3, name) + literal(0, 7, value) for name, value in fields)
    return b"\x01" + (0x80000000 | len(block)).to_bytes(4, "big") + block


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.http = H3Connection(self._quic)
        self.responses = {}
        self.ended = asyncio.get_running_loop().create_future()

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated) and not self.ended.done():
            self.ended.set_result(event.error_code)
        if isinstance(event, StreamReset) and event.stream_id in self.responses:
            self.responses[event.stream_id][2].set_result(event.error_code)
        for part in self.http.handle_event(event):
            response = self.responses.get(part.stream_id)
            if isinstance(part, HeadersReceived) and response:
                response[0] = int(dict(part.headers)[b":status"])
            if isinstance(part, DataReceived) and response:
                response[1] += len(part.data)
            if getattr(part, "stream_ended", False) and response:
                response[2].set_result(None)

    async def get(self, path, more=()):
        """The status and the length of a response, or the code of its reset."""
        stream = self._quic.get_next_available_stream_id()
        done = asyncio.get_running_loop().create_future()
        self.responses[stream] = [0, 0, done]
        pseudo = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path)]
        if more:
            self._quic.send_stream_data(stream, headers([*pseudo, *more]), end_stream=True)
        else:
            self.http.send_headers(stream, pseudo, end_stream=True)
        self.transmit()
        reset = await asyncio.wait_for(done, TIMEOUT)
        status, length, _ = self.responses.pop(stream)
        return f"reset {reset:#x}" if reset is not None else f"{status} {length}"

    async def end(self):
        return f"{await asyncio.wait_for(self.ended, TIMEOUT):#x}"


def connected(**more):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, cafile=AUTHORITY, server_name="localhost")
    configuration.verify_mode = ssl.CERT_REQUIRED
    return connect("127.0.0.1", PORT, configuration=configuration, create_protocol=Client, **more)


async def requests():
    async with connected() as client:
        print("pages:", await client.get(b"/kept"), await client.get(b"/large"))
        client._quic.request_key_update()
        print("after a key update:", await client.get(b"/kept"), await client.get(b"/large"))
        # Another local port, with another connection ID.
        client.change_connection_id()
        old = client._transport
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: client, local_addr=("::ffff:127.0.0.1", 0))
        old.close()
        print("after a migration:", await client.get(b"/kept"), await client.get(b"/large"))
        for count in (4, 60):
            fields = [(b"x-large-%d" % it, bytes([97 + it % 26]) * 3000) for it in range(count)]
            print(f"{count} fields of 3,000 bytes:", await client.get(b"/kept", fields))


async def resumption():
    tickets = []
    async with connected(session_ticket_handler=tickets.append) as client:
        await client.get(b"/kept")
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, cafile=AUTHORITY, server_name="localhost")
    configuration.session_ticket = tickets[-1] if tickets else None
    async with connect("127.0.0.1", PORT, configuration=configuration, create_protocol=Client) as client:
        answer = await client.get(b"/kept")
        tls = client._quic.tls
        print("a second connection:", answer, "resumed" if tls.session_resumed else "not resumed",
              "early data" if tls.early_data_accepted else "no early data")


async def violation(name, act):
    async with connected() as client:
        act(client, client._quic)
        client.transmit()
        print(f"{name}:", await client.end())


def on_request(data):
    return lambda _, quic: quic.send_stream_data(quic.get_next_available_stream_id(), data)


def on_control(data):
    return lambda client, quic: quic.send_stream_data(client.http._local_control_stream_id, data)


def uni(data):
    return lambda _, quic: quic.send_stream_data(quic.get_next_available_stream_id(is_unidirectional=True), data)


def many_streams(client, quic):
    quic._remote_max_streams_bidi = 100_000
    quic.send_stream_data(4 * 50_000, b"x")


CASES = [
    ("DATA before HEADERS", on_request(b"\x00\x01x")),
    ("a frame of HTTP/2 on a request", on_request(b"\x06\x00")),
    ("SETTINGS on a request", on_request(b"\x04\x00")),
    ("CANCEL_PUSH on a request", on_request(b"\x03\x01\x00")),
    ("a field section that cannot be decoded", on_request(b"\x01\x04\x00\x00\xff\xff")),
    ("a second SETTINGS", on_control(b"\x04\x00")),
    ("DATA on the control stream", on_control(b"\x00\x00")),
    ("HEADERS on the control stream", on_control(b"\x01\x00")),
    ("a second control stream", uni(b"\x00\x04\x00")),
    ("a push stream of a client", uni(b"\x01\x00")),
    ("more streams than are permitted", many_streams),
]


async def main():
    await requests()
    await resumption()
    for name, act in CASES:
        await violation(name, act)


asyncio.run(main())
