"""A real broker process is sent batches that are none, and such that hold far more than they weigh:
it takes none of them, and they cost what the same number of good ones costs."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from as_before import assert_as_before
from broker_process import BrokerProcess
from hostile_batches import bomb, garbage, sealed, send
from live_fuzz import HealthyClient, quiet_rounds

from tallymark.client import Admin
from tallymark.errors import CODES
from tallymark.protocol.records.batch import HEADER_SIZE, encode_batch
from tallymark.protocol.records.compression import CODECS, compress
from tallymark.testing.wire import WireClient

pytestmark = pytest.mark.process

KEYED, PLAIN = "compacted", "plain"
FINAL = {CODES["INVALID_RECORD"], CODES["MESSAGE_TOO_LARGE"]}
ZSTD = CODECS.index("zstd")


def small_records(count: int, key: bytes | None) -> bytes:
    """As many records as a batch of some kilobytes can hold."""
    records = encode_batch([(key, b"", (), 1)] * count)[HEADER_SIZE:]
    return sealed(bytes(compress("zstd", records)), codec=ZSTD, last_delta=count - 1, count=count)


def hostile() -> list[tuple[str, bytes]]:
    """(topic, batch) of every kind."""
    long_key = bytearray(encode_batch([(b"k", b"v" * 40, (), 1)])[HEADER_SIZE:])
    long_key[4] = 0x7E
    return [
        *((PLAIN, garbage(seed)) for seed in range(6)),
        (PLAIN, garbage(7, last_delta=2**31 - 2, count=2**31 - 1)),
        (PLAIN, sealed(b"", codec=ZSTD, last_delta=2**31 - 2, count=2**31 - 1)),
        (PLAIN, sealed(b"")),
        (PLAIN, sealed(bytes(long_key))),
        (KEYED, garbage(8)),
        (KEYED, bomb(250)),
        (KEYED, small_records(100_000, None)),
        (KEYED, sealed(bytes(compress("zstd", garbage(9, 5000))), codec=ZSTD)),
    ]


def good() -> list[tuple[str, bytes]]:
    """As many, for the same topics; those for the compacted one hold what it may unpack."""
    plain = encode_batch([(b"k", b"v" * 200, (), 1)])
    large = encode_batch([(b"k", bytes(15 << 20), (), 1)], compression="zstd")
    keyed = [large, small_records(100_000, b"k"), encode_batch([(b"k", b"v", (), 1)])]
    return [(PLAIN, plain)] * 10 + [(KEYED, batch) for batch in [large, *keyed]]


@dataclass
class Cost:
    """What a load did to a broker: its greatest memory, its log's bytes, the rounds a second of a
    client of another topic beside it, the codes of its answers, and the seconds that a round took
    before and after."""

    memory: int
    log: int
    rate: float
    codes: set[int]
    before: list[float]
    after: list[float]


def load(folder: Path, batches: Sequence[tuple[str, bytes]], rounds: int, quiet: int) -> Cost:
    codes: set[int] = set()
    folder.mkdir()
    with BrokerProcess(folder, log_retention_bytes=8 << 20, log_segment_bytes=4 << 20) as broker:
        with Admin(bootstrap_servers=broker.address) as admin:
            admin.create_topic(PLAIN, 1, {})
            admin.create_topic(KEYED, 1, {"cleanup.policy": "compact"})
        before = quiet_rounds(broker.address, quiet)
        healthy = HealthyClient(broker.address)
        healthy.start()
        began = time.monotonic()
        try:
            with WireClient(broker.address, timeout=60) as wire:
                for _ in range(rounds):
                    for topic, records in batches:
                        codes.add(send(wire, topic, records))
        finally:
            found = healthy.finish()
        seconds = time.monotonic() - began
        assert broker.is_alive
        after = quiet_rounds(broker.address, quiet)
        status = Path(f"/proc/{broker.pid}/status").read_text()
        (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
        broker.stop()
        text = broker.log.read_bytes()
    assert b"Traceback" not in text
    return Cost(int(peak) * 1024, len(text), found / seconds, codes, before, after)


def compare(folder: Path, rounds: int, quiet: int) -> tuple[Cost, Cost]:
    """The flow: as many good batches as hostile ones, each on a broker of its own. ``quiet``: the
    rounds of a client that are measured before and after."""
    usual = load(folder / "good", good(), rounds, quiet)
    attacked = load(folder / "bad", hostile(), rounds, quiet)
    assert usual.codes == {0}
    assert attacked.codes <= FINAL, attacked.codes
    # Two threads open batches, each with what it unpacks, 16 MiB, and the buffer that grows to it.
    assert attacked.memory < usual.memory + 2 * 2 * (16 << 20)
    assert attacked.log < 2 * usual.log + 10_000
    return usual, attacked


def test_batches_that_are_none(tmp_path: Path) -> None:
    """Each kind of them was taken; and one of two thousand bytes that held millions of records
    took the broker half a gigabyte for a compacted topic."""
    compare(tmp_path, 1, quiet=1)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_batches_that_are_none(tmp_path: Path) -> None:
    usual, attacked = compare(tmp_path, 60, quiet=200)
    assert attacked.rate > usual.rate / 3, "a client of another topic has to wait"
    assert_as_before(attacked.before, attacked.after, 0.002, "write and read, s")
