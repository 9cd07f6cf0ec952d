"""Requests that are none, or nearly: mutated bytes, half requests, nonsense in every place."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from random import Random

from hostile_schemas import SMALL

_PIECES = (
    "%2F", "%00", "..", "a" * 3000, "é", "-1", "latest", "99999999999999999999999999", "\x1b[2J",
    "<script>", "'; drop table schemas; --", "null", "%", "dc1-to-aggregate", "clicks",
)  # fmt: skip
_REGISTRY = (
    "/subjects", "/subjects/{}", "/subjects/{}/versions", "/subjects/{}/versions/{}",
    "/schemas/ids/{}", "/schemas/ids/{}/versions", "/config", "/config/{}", "/mode/{}",
    "/compatibility/subjects/{}/versions/{}?verbose=true", "/associations/{}", "/{}",
)  # fmt: skip
_API = (
    "/?q={}&page={}", "/window?edge={}&topic={}&window={}", "/fragment/window?edge={}&topic={}",
    "/api/v1/audit/overview?limit={}&q={}", "/api/v1/audit/verdicts?topic={}&limit={}&after={}",
    "/api/v1/audit/cells?edge={}&topic={}&window={}", "/api/v1/audit/evidence?edge={}&window={}",
    "/api/v1/audit/reporters?live={}", "/api/v1/audit/alerts?state={}", "/static/{}", "/{}",
)  # fmt: skip
TARGETS: dict[str, Sequence[str]] = {"registry": _REGISTRY, "dashboards": _API}


def request(dice: Random, targets: Sequence[str]) -> bytes:
    """One request; it may be well formed."""
    path = dice.choice(targets)
    path = path.format(*(dice.choice(_PIECES) for _ in range(path.count("{}"))))
    method = dice.choice(("GET", "GET", "POST", "POST", "PUT", "DELETE", "HEAD", "PATCH", "X"))
    body = b"" if method == "GET" else _body(dice)
    headers = {
        "Host": dice.choice(("127.0.0.1", "127.0.0.1", "127.0.0.1", "evil.example", "")),
        "Content-Type": dice.choice(("application/json", "", "text/plain")),
        "Content-Length": str(len(body) + dice.choice((0, 0, 0, 0, 1, -1))),
        dice.choice(("Origin", "Accept", "X-A", "Authorization")): dice.choice(_PIECES),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    whole = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("utf-8", "replace") + body
    return _mutated(whole, dice) if dice.random() < 0.3 else whole


def _mutated(whole: bytes, dice: Random) -> bytes:
    """A few of its bytes changed, left out or repeated."""
    data = bytearray(whole)
    for _ in range(dice.choice((1, 1, 2, 5))):
        place = dice.randrange(len(data))
        kind = dice.randrange(3)
        if kind == 0:
            data[place] = dice.randrange(256)
        elif kind == 1:
            del data[place : place + dice.randrange(1, 40)]
        else:
            data[place:place] = data[place : place + 100]
        data = data or bytearray(b"x")
    return bytes(data)


def _body(dice: Random) -> bytes:
    kind = dice.randrange(4)
    if kind == 0:
        return dice.randbytes(dice.randrange(2000))
    if kind == 1:
        return b"[" * dice.randrange(60_000)
    if kind == 2:
        return json.dumps({dice.choice(_PIECES): dice.choice(_PIECES)}).encode()
    return json.dumps({"schema": dice.choice(_SCHEMAS)}).encode()


_SCHEMAS = [text for make in SMALL.values() for text in make()] + ['"int"', "", "{}", "[]"]


def fuzz_web(port: int, requests: int, seed: int, targets: Sequence[str]) -> tuple[int, int]:
    """Sends so many, each on a connection of its own, from another address than everybody else.
    (answered, closed without an answer)."""
    dice = Random(seed)
    answered = closed = 0
    for _ in range(requests):
        with socket.socket() as one:
            one.settimeout(30)
            one.bind(("127.0.0.3", 0))
            try:
                one.connect(("127.0.0.1", port))
                one.sendall(request(dice, targets))
                one.shutdown(socket.SHUT_WR)
                found = one.recv(65_536).startswith(b"HTTP/1.1 ")
            except OSError:
                found = False
            answered += found
            closed += not found
    return answered, closed


def half_requests(port: int, count: int) -> list[socket.socket]:
    """So many connections that never ask for anything whole; some may be refused."""
    held: list[socket.socket] = []
    for number in range(count):
        one = socket.socket()
        one.settimeout(5)
        try:
            one.bind((f"127.0.1.{number % 250 + 1}", 0))
            one.connect(("127.0.0.1", port))
            one.sendall(b"POST /subjects/x/versions HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        except OSError:
            one.close()
            continue
        held.append(one)
    return held
