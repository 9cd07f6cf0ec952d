"""Connections that never come to a log-in, as fast as one process makes them: ``python
connection_flood.py ADDRESS KIND``.

Prints a line when it begins, and how many connections or requests it made when its standard input
ends.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tallymark.net.sasl.scram import ScramClient
from tallymark.protocol.frames import encode_request
from tallymark.protocol.messages import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)

THREADS: Final = 20
HELD: Final = 50
"""Connections that each thread leaves open, where its kind leaves any."""
PIPELINED: Final = 100

Kind = Callable[[socket.socket, str], bool]
"""What one connection does; whether it is left open."""


def connecting(_sock: socket.socket, _name: str) -> bool:
    """Connects and goes."""
    return False


def leaving(sock: socket.socket, name: str) -> bool:
    """Sends a wrong log-in and goes."""
    sock.sendall(_handshake("PLAIN") + _token(f"\0{name}\0wrong".encode()))
    return False


def half(sock: socket.socket, _name: str) -> bool:
    """Says how it will log in, and does not."""
    sock.sendall(_handshake("PLAIN"))
    _read_frames(sock, 1)
    return True


def scram(sock: socket.socket, name: str) -> bool:
    """Sends the first of the two tokens of SCRAM, and goes with the answer."""
    first = ScramClient("SCRAM-SHA-512", name, "wrong", "nonce").first()
    sock.sendall(_handshake("SCRAM-SHA-512") + _token(first))
    _read_frames(sock, 2)
    return False


def token(sock: socket.socket, name: str) -> bool:
    """Sends a token that names a key nobody has."""
    parts = ({"alg": "RS256", "kid": name}, {"sub": name}, "signature")
    text = ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts
    )
    message = f"n,,\x01auth=Bearer {text}\x01\x01"
    sock.sendall(_handshake("OAUTHBEARER") + _token(message.encode()))
    _read_frames(sock, 2)
    return False


def versions(sock: socket.socket, _name: str) -> bool:
    """Asks for the versions of APIs, again and again."""
    with contextlib.suppress(OSError):  # it is closed before they are answered
        sock.sendall(encode_request(ApiVersionsRequest(), 2, 1, "flood") * PIPELINED)
        _read_frames(sock, PIPELINED)
    return False


def hello(sock: socket.socket, _name: str) -> bool:
    """Begins a TLS handshake, and does not end it."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = _TRUSTING.wrap_bio(incoming, outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    sock.sendall(outgoing.read())
    sock.recv(1)  # the certificate has been sent: the dear part is done
    return True


KINDS: Final[dict[str, Kind]] = {
    one.__name__: one for one in (connecting, leaving, half, scram, token, versions, hello)
}


def main(address: str, kind: str) -> None:
    """Until standard input ends."""
    host, _, port = address.rpartition(":")
    stop, made = threading.Event(), [0] * THREADS

    def attack(thread: int) -> None:
        held: deque[socket.socket] = deque()
        while not stop.is_set():
            with contextlib.suppress(OSError):
                sock = socket.create_connection((host, int(port)), 30)
                if KINDS[kind](sock, f"{thread}-{made[thread]}"):
                    held.append(sock)
                else:
                    sock.close()
                made[thread] += 1
            while len(held) > HELD:
                held.popleft().close()

    threads = [threading.Thread(target=attack, args=(n,), daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    print("began", flush=True)
    sys.stdin.read()
    print(sum(made), flush=True)
    stop.set()


def _handshake(mechanism: str) -> bytes:
    return encode_request(SaslHandshakeRequest(mechanism=mechanism), 1, 1, "flood")


def _token(token: bytes) -> bytes:
    return encode_request(SaslAuthenticateRequest(auth_bytes=token), 1, 2, "flood")


def _read_frames(sock: socket.socket, many: int) -> None:
    stream: Any = sock.makefile("rb")
    for _ in range(many):
        size = stream.read(4)
        if len(size) < 4:
            raise ConnectionError("closed")
        stream.read(int.from_bytes(size, "big"))
    stream.close()


_TRUSTING: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_TRUSTING.check_hostname = False
_TRUSTING.verify_mode = ssl.CERT_NONE


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
