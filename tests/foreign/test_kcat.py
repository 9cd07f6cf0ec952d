"""kcat (Debian), unmodified. Its librdkafka is older than the broker support that it looks for."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from foreign_clients.kcat import compressed, kcat, needs_kcat
from foreign_clients.rows import SECONDS, stored_bytes, stored_codecs

pytestmark = [pytest.mark.process, needs_kcat]

LINES = [b"a line that repeats itself, " * 20 + b"number %d" % n for n in range(200)]
"""Each repeats itself alone, too: librdkafka sends a batch uncompressed that compression would make
larger, and where the machine is busy its first batch holds a single line."""
GIVEN = b"".join(line + b"\n" for line in LINES)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_stored_as_such(servers: str, data_folder: Path, codec: str) -> None:
    """A librdkafka before 2.11.1 sends gzip, snappy and lz4 uncompressed to a broker whose lowest
    Produce version is above 0, and says so only in its log (KAFKA-18659)."""
    topic = f"kcat-{codec}"
    kcat(servers, "-q", "-P", "-t", topic, "-p", "0", *compressed(codec), given=GIVEN)
    assert kcat(servers, "-q", "-C", "-t", topic, "-o", "beginning", "-e") == GIVEN
    assert stored_codecs(data_folder, topic) == {codec}
    assert (stored_bytes(data_folder, topic) < len(GIVEN) / 2) == (codec != "none")


def test_idempotent(servers: str) -> None:
    where = ("-t", "kcat-idempotent", "-p", "0")
    kcat(servers, "-q", "-P", *where, "-X", "enable.idempotence=true", given=GIVEN)
    assert kcat(servers, "-q", "-C", *where, "-o", "-3", "-e").splitlines() == LINES[-3:]


def test_metadata_and_look_up_by_time(servers: str) -> None:
    kcat(servers, "-q", "-P", "-t", "kcat-times", "-p", "1", given=GIVEN)
    assert b'topic "kcat-times" with 2 partitions' in kcat(servers, "-L", "-t", "kcat-times")
    assert kcat(servers, "-Q", "-t", "kcat-times:1:0") == b"kcat-times [1] offset 0\n"
    later = int((time.time() + 3600) * 1000)
    assert kcat(servers, "-Q", "-t", f"kcat-times:1:{later}") == b"kcat-times [1] offset -1\n"


class Member:
    """A kcat that reads the topic ``kcat-group`` as a member of a group until it is ended."""

    def __init__(self, servers: str, folder: Path) -> None:
        folder.mkdir()
        self._printed, self._said = folder / "printed", folder / "said"
        settings = ("-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=100")
        command = ["kcat", "-b", servers, "-u", *settings, "-G", "kcat-readers", "kcat-group"]
        with self._printed.open("wb") as printed, self._said.open("wb") as said:
            self._process = subprocess.Popen(command, stdout=printed, stderr=said)

    def lines(self) -> list[bytes]:
        """What it has read."""
        return self._printed.read_bytes().splitlines()

    def assigned(self) -> bytes:
        """The partitions it was given last."""
        said = [line for line in self._said.read_bytes().splitlines() if b"assigned:" in line]
        return said[-1].partition(b"assigned: ")[2] if said else b""

    def end(self) -> None:
        """It commits and leaves."""
        self._process.terminate()
        assert self._process.wait(SECONDS) == 0


def wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_members_come_and_go(servers: str, tmp_path: Path) -> None:
    def produce() -> None:
        for partition in "01":
            kcat(servers, "-q", "-P", "-t", "kcat-group", "-p", partition, given=GIVEN)

    produce()
    first = Member(servers, tmp_path / "first")
    wait(lambda: len(first.lines()) == 400)
    second = Member(servers, tmp_path / "second")
    alone = b"kcat-group [0], kcat-group [1]"
    wait(lambda: first.assigned() != alone and second.assigned() != b"")
    assert {first.assigned(), second.assigned()} == {b"kcat-group [0]", b"kcat-group [1]"}
    produce()
    wait(lambda: len(first.lines()) + len(second.lines()) == 800)
    assert second.lines() == LINES
    second.end()
    wait(lambda: first.assigned() == alone)
    produce()
    wait(lambda: len(first.lines()) == 1000)
    first.end()
    assert sorted(first.lines() + second.lines()) == sorted(LINES * 6)
