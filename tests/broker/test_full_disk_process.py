"""A real broker on a real disk that is full, and then is not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from eventually import eventually

from tallymark import Producer
from tallymark.client import SimpleConsumer

pytestmark = pytest.mark.process

MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Four megabytes, in memory. Needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def read_all(broker: BrokerProcess) -> set[bytes]:
    found: set[bytes] = set()
    with SimpleConsumer(bootstrap_servers=broker.address) as consumer:
        offset = 0
        while batch := list(consumer.fetch("t", 0, offset)):
            found |= {one.value for one in batch if one.value is not None}
            offset = batch[-1].offset + 1
    return found


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    """Somebody's file filled the disk for a minute: the broker stayed offline until it was
    restarted. Producers wait and try again, nothing that was acknowledged is lost, and what waited
    is written when the file has gone; the log is few lines meanwhile."""
    broker = BrokerProcess(small_disk, log_segment_bytes=200_000, log_flush_interval_ms=100)
    broker.log = small_disk.parent / "broker.log"
    ballast = small_disk / "ballast"
    with broker, Producer(bootstrap_servers=broker.address, audit=False, linger_ms=0) as producer:
        producer.send("t", b"first").result(30)
        ballast.write_bytes(bytes(3 * MIB))
        values = [b"%06d" % number + b"x" * 20_000 for number in range(90)]
        sent = [producer.send("t", value) for value in values]
        eventually(
            lambda: b"No space left on device" in broker.log.read_bytes(),
            seconds=30,
            what="the disk is full",
        )
        safe = {value for one, value in zip(sent, values, strict=True) if one.done()}
        assert len(safe) < len(values)
        assert safe <= read_all(broker)  # it is read meanwhile
        ballast.unlink()
        for one in sent:
            one.result(60)
        assert read_all(broker) == {b"first", *values}
        assert b"is offline" not in broker.log.read_bytes().replace(b"directory is offline:", b"")
        assert broker.log.stat().st_size < 50_000
        broker.kill()
        broker.start()
        assert read_all(broker) == {b"first", *values}
        broker.stop()
