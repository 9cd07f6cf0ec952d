"""kcat, from Debian: a command around an older librdkafka."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from foreign_clients.rows import LINGER_MS, SECONDS, Row

needs_kcat = pytest.mark.skipif(
    shutil.which("kcat") is None, reason="kcat is not installed: deploy/ensure-kcat"
)

HEADER = ("from", b"kcat")


def kcat(servers: str, *arguments: str, given: bytes = b"") -> bytes:
    """Run it and return what it prints; what it complains of fails the test."""
    done = subprocess.run(
        ["kcat", "-b", servers, *arguments],
        input=given,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    return done.stdout


def write(servers: str, topic: str, rows: list[Row], codec: str = "none") -> None:
    """Keys and values must be text; each message gets the one header, and the time of now."""
    lines = b"".join((key or b"") + b"\t" + (value or b"") + b"\n" for key, value, _, _ in rows)
    name, data = HEADER
    header = f"{name}={data.decode()}"
    where = ("-q", "-P", "-t", topic, "-p", "0", "-K", "\t", "-H", header, *compressed(codec))
    kcat(servers, *where, given=lines)


def compressed(codec: str) -> tuple[str, ...]:
    """Arguments for a producer of full batches."""
    return ("-z", codec, "-X", f"linger.ms={LINGER_MS}")


def printed(servers: str, topic: str) -> bytes:
    """The whole of partition 0 in a form that says where each message ends."""
    where = ("-q", "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-X", "check.crcs=true")
    return kcat(servers, *where, "-f", "%o %T %K %S %k|%s|%h\n")


def expected(rows: list[Row]) -> bytes:
    """What :func:`printed` must be when partition 0 holds these rows."""
    return b"".join(_printed(offset, row) for offset, row in enumerate(rows))


def _printed(offset: int, row: Row) -> bytes:
    key, value, headers, timestamp = row
    sizes = [-1 if data is None else len(data) for data in (key, value)]
    # It prints the value of a header as a string of C, which ends at the first zero.
    told = b",".join(
        name.encode() + b"=" + (b"NULL" if data is None else data.partition(b"\0")[0])
        for name, data in headers
    )
    front = f"{offset} {timestamp} {sizes[0]} {sizes[1]} ".encode()
    return front + b"|".join([key or b"", value or b"", told]) + b"\n"
