"""Invalid and unusual batches, made from a seed; tests of readers use them."""

from __future__ import annotations

from random import Random

from tallymark.protocol.records.batch import HEADER_SIZE, encode_batch
from tallymark.protocol.varint import encode_uvarint, encode_varint

NUMBERS = (
    *(0, 1, -1, -2, 2, 3, 63, 64, -64, -65, 127, 128, 8191, 8192, 1 << 20),
    *(2**31 - 1, 2**31, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63), 2**63 - 7, -(2**63) + 7),
)
ODD_VARINTS = (
    b"\x80\x00",  # 0 in two bytes
    b"\x81\x00",  # -1 in two bytes
    b"\x81\x80\x80\x80\x80\x80\x80\x80\x80\x00",  # -1 in ten bytes
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",  # eleven bytes
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # -2**63
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # 2**63 - 1
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x02",  # more than 64 bits
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\xff" * 12,
)
NAMES = (
    b"tm",
    b"tm",
    b"t",
    b"",
    b"tmx",
    "é".encode(),
    b"\xed\xa0\x80",
    b"\xf5",
    b"\xc3",
    b"h" * 70,
)
BASES = (0, 7, 1_700_000_000_000, 2**63 - 1, 2**63 - 3, -1, -(2**63), -(2**63) + 2)


def records(random: Random) -> tuple[bytes, int]:
    """The bytes of some records and their number: good ones, changed ones, cut ones, and some that
    are built of numbers that do not fit."""
    kind = random.randrange(4)
    payload, count = _built(random) if kind == 3 else _encoded(random)
    if kind == 1:
        payload, count = _changed(random, payload, count)
    elif kind == 2:
        payload = payload[: random.randrange(len(payload) + 1)]
    return payload, count


def _encoded(random: Random) -> tuple[bytes, int]:
    """As a producer makes them: of one shape, or of many."""
    count = random.choice((1, 2, 3, 5, 9, 30))
    size = random.choice((0, 5, 60, 70, 200))
    equal = random.random() < 0.5
    rows = [
        (
            random.choice((None, b"", b"key")),
            None if random.random() < 0.1 else bytes(size if equal else random.randrange(size + 9)),
            [("tm", random.choice((None, b"", b"\1stamp of 17 byte")))]
            if equal
            else [
                (random.choice(("tm", "a", "é" * 40)), random.choice((None, b"", b"x" * 70)))
                for _ in range(random.randrange(3))
            ],
            1_000 + random.randrange(1 if equal else 20_000),
        )
        for _ in range(count)
    ]
    return encode_batch(rows)[HEADER_SIZE:], count


def _changed(random: Random, payload: bytes, count: int) -> tuple[bytes, int]:
    changed = bytearray(payload)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(changed) + 1)
        match random.randrange(6):
            case 0 if at < len(changed):
                changed[at] = random.randrange(256)
            case 1 if at < len(changed):
                changed[at] ^= 1 << random.randrange(8)
            case 2:
                del changed[at : at + random.randint(1, 4)]
            case 3:
                changed[at:at] = random.randbytes(random.randint(1, 4))
            case 4:
                changed[at : at + 1] = _number(random, 0)
            case _:
                count = random.choice((count - 1, count + 1, 0, -1, 2**31 - 1))
    return bytes(changed), count


def _built(random: Random) -> tuple[bytes, int]:
    """Field by field, a few of them wrong."""
    wrong = random.choice((0.0, 0.02, 0.1))

    def number(right: int) -> bytes:
        return _number(random, right) if random.random() < wrong else encode_varint(right)

    def sized(data: bytes | None) -> bytes:
        return number(-1) if data is None else number(len(data)) + data

    parts: list[bytes] = []
    count = random.choice((1, 1, 2, 4, 8))
    for place in range(count):
        headers = [
            sized(random.choice(NAMES)) + sized(random.choice((None, b"", b"stamp", b"y" * 100)))
            for _ in range(random.choice((0, 1, 1, 2, 3)))
        ]
        body = b"".join(
            (
                random.choice((b"\0", b"\xff")),
                number(random.choice((0, 5, -5, 70_000))),
                number(place),
                sized(random.choice((None, b"", b"key", b"k" * 80))),
                sized(random.choice((None, b"", b"value", b"v" * 300))),
                number(len(headers)),
                *headers,
            )
        )
        parts.append(number(len(body)) + body)
    return b"".join(parts), count


def _number(random: Random, near: int) -> bytes:
    match random.randrange(3):
        case 0:
            return random.choice(ODD_VARINTS)
        case 1:
            return encode_varint(near + random.choice((-1, 1, 2)))
        case _:
            return encode_uvarint(random.choice(NUMBERS) & 2**64 - 1)
