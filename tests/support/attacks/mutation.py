"""Making valid frames invalid, in the ways that find bugs: single bits, numbers that are lengths,
pieces of one frame in another, a size that does not fit."""

from __future__ import annotations

import struct
from random import Random
from typing import Final

from tallymark.protocol.api import ADVERTISED

_NUMBERS: Final = (0, 1, -1, -2, 127, 128, 255, 32767, 65535, 10_000, 2**31 - 1, -(2**31), 1 << 20)
_VARINTS: Final = (b"\x00", b"\x01", b"\x7f", b"\x80\x01", b"\xff\xff\xff\xff\x0f", b"\xff" * 9)
_HEADER: Final = 8
"""Bytes of key, version and correlation id; most mutations are behind them, or few frames would
come as far as their handler."""


def mutated(frame: bytes, other: bytes, random: Random) -> bytes:
    """``frame`` (size included) with something wrong, mostly under a size that fits."""
    body = bytearray(frame[4:])
    if random.random() < 0.5:  # one bit: often a number or a name, and the frame still decodes
        body[random.randrange(min(_HEADER, len(body) - 1), len(body))] ^= 1 << random.randrange(8)
    else:
        for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
            _mutate(body, other[4:], random)
    size = len(body)
    if random.random() < 0.02:
        size = random.choice((*_NUMBERS, size + 1, size - 1, size + 1000))
    return struct.pack(">i", max(min(size, 2**31 - 1), -(2**31))) + body


def _mutate(body: bytearray, other: bytes, random: Random) -> None:
    place = random.randrange(min(_HEADER, len(body)), len(body) + 1)
    match random.randrange(9):
        case 0 | 1 if body:
            body[min(place, len(body) - 1)] ^= 1 << random.randrange(8)
        case 2:
            del body[place:]
        case 3:
            body[place : place + 4] = struct.pack(">i", random.choice(_NUMBERS))
        case 4:
            body[place : place + 2] = struct.pack(">h", random.choice(_NUMBERS) & 0x7FFF)
        case 5:
            body[place : place + 1] = random.choice(_VARINTS)
        case 6:
            start = random.randrange(len(other) + 1)
            body[place:place] = other[start : start + random.randrange(60)]
        case 7:
            body[place:place] = body[place : place + random.randrange(40)]
        case _:
            if random.random() < 0.3:  # another API or version, mostly one that there is
                key = random.choice((*ADVERTISED, random.randrange(-1, 100)))
                body[0:4] = struct.pack(">hh", key, random.choice((0, 1, 2, 3, 4, 9, 99, -1)))
            else:
                del body[place : place + random.randrange(1, 9)]
