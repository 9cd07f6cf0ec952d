"""A real broker, one of whose compacted topics is fed batches that unpack to all that a produce
allows, in millions of records: its compaction takes its time, and the memory that is stated; other
topics are compacted, and written to, as ever. A second broker does the same work without the
attack: what a busy machine does to one it does to both."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from eventually import eventually
from hostile_batches import sealed, send

from tallymark.client import Admin, Producer
from tallymark.protocol.records.compression import CODECS, compress
from tallymark.protocol.varint import encode_varint
from tallymark.testing.wire import WireClient

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(1200)]

MIB = 1 << 20
BACKOFF_S = 4
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "flush.messages": "1",
}
BOMBS, PHASE_S = 6, 30
MEMORY = 128 * MIB + 4 * 16 * MIB
"""Of the cleaner: its map of keys (log.cleaner.dedupe.buffer.size), and one batch, unpacked."""
LATENCY, CLEANED, AFTERWARDS = 2.5, 2.5, 2.0
"""As ratios to the broker beside, in the same time: a produce to another topic, of the fastest
tenth, and the median from there until that topic is compacted; and both after the attack. (Medians
of a produce say which of the brokers has fewer processors for itself: 1.6 before the attack, 2.5
and 6.7 with it, of less than a millisecond.) Of the second, the pause between two looks is left
out: a topic that is dirty waits for one up to so long, or not at all where it comes while the topic
is written."""


def bomb(number: int, count: int = 900_000) -> bytes:
    """Records of some bytes, as many as a batch of the largest size holds; no other batch has
    their keys, so all of them stay, and each compaction opens all that came before."""
    body = bytearray()
    for at in range(count):
        key = b"%c%06x" % (0x41 + number, at)
        record = b"\0\0" + encode_varint(at) + encode_varint(len(key)) + key + b"\x02v\0"
        body += encode_varint(len(record)) + record
    packed = bytes(compress("zstd", body))
    return sealed(packed, codec=CODECS.index("zstd"), last_delta=count - 1, count=count)


@dataclass
class Bystander:
    """Writes to another topic, and looks on as the broker compacts it. Seconds."""

    broker: BrokerProcess
    topic: str = "views"
    latencies: list[float] = field(default_factory=list[float])
    cleaned: list[float] = field(default_factory=list[float])

    def watch(self, seconds: float) -> tuple[float, float]:
        """For a while; what the fastest tenth of all produces takes at most, and the median of the
        time until the topic is compacted."""
        self.latencies, self.cleaned = [], []
        end = time.monotonic() + seconds
        with Producer(bootstrap_servers=self.broker.address, linger_ms=0) as producer:
            while time.monotonic() < end or len(self.cleaned) < 5:
                self._once(producer)
        return statistics.quantiles(self.latencies, n=10)[0], statistics.median(self.cleaned)

    def _once(self, producer: Producer) -> None:
        seen = self._compactions()
        began = time.monotonic()
        for _ in range(60):  # a segment of it, and more
            at = time.monotonic()
            producer.send(self.topic, b"v" * 1000, key=b"k").result(60)
            self.latencies.append(time.monotonic() - at)
        while self._compactions() == seen:
            assert time.monotonic() < began + 120, "the other topic is not compacted any more"
            time.sleep(0.05)
        self.cleaned.append(time.monotonic() - began)

    def _compactions(self) -> int:
        return self.broker.log.read_bytes().count(b"compacted partition=views-0")


def children_peak(pid: int) -> int:
    """The most memory that a child of the process, its cleaner, ever had (Linux)."""
    tasks = Path(f"/proc/{pid}/task").iterdir()  # a thread of it has started the child
    children = [each for task in tasks for each in (task / "children").read_text().split()]
    peaks: list[int] = []
    for child in children:
        status = Path(f"/proc/{child}/status").read_text()
        if (found := re.search(r"VmHWM:\s+(\d+) kB", status)) is not None:
            peaks.append(int(found[1]) * 1024)
    return max(peaks)


def test_the_compaction_of_one_topic_costs_that_topic(tmp_path: Path) -> None:
    """All records of a batch were there at once, 200 MB of a megabyte; and while its log was read
    from the start again no other topic was compacted."""
    settings = {"log_cleaner_backoff_ms": BACKOFF_S * 1000}
    for name in ("attacked", "beside"):
        (tmp_path / name).mkdir()
    with (
        BrokerProcess(tmp_path / "attacked", **settings) as broker,
        BrokerProcess(tmp_path / "beside", **settings) as beside,
    ):
        for each in (broker, beside):
            with Admin(bootstrap_servers=each.address) as admin:
                admin.create_topic("views", 1, {**CONFIGS, "segment.bytes": "16384"})
                admin.create_topic("hostile", 1, {**CONFIGS, "segment.bytes": str(MIB)})
        bystanders = Bystander(broker), Bystander(beside)
        bombs = [bomb(number) for number in range(BOMBS)]
        before = ratios(*bystanders)
        usual = children_peak(broker.pid)
        with ThreadPoolExecutor(1) as attack:
            fed = attack.submit(feed, broker, bombs)
            meanwhile = ratios(*bystanders)
            fed.result()
        peak = children_peak(broker.pid)
        settled(broker)
        after = ratios(*bystanders)
        broker.stop()
        text = broker.log.read_bytes()
    print(f"{before=} {meanwhile=} {after=} {usual / MIB=:.0f} {peak / MIB=:.0f}")
    assert b"Traceback" not in text
    assert len(text) < 100_000
    assert peak < usual + MEMORY
    assert meanwhile[0] < LATENCY, "a produce to another topic"
    assert meanwhile[1] < CLEANED, "the other topic's compaction"
    assert after[0] < AFTERWARDS
    assert after[1] < AFTERWARDS


def ratios(here: Bystander, there: Bystander) -> tuple[float, float]:
    """What it takes here by what it takes there, in the same time; see LATENCY."""
    with ThreadPoolExecutor(1) as side:
        watched = side.submit(there.watch, PHASE_S)
        produce, cleaned = here.watch(PHASE_S)
        produce_there, cleaned_there = watched.result()
    for each in (here, there):
        print(
            f"produce {sum(each.latencies):.1f} s of {len(each.latencies)}, "
            f"{max(each.latencies):.1f} s at most; compacted after",
            [round(one, 1) for one in each.cleaned],
        )
    return produce / produce_there, (cleaned - BACKOFF_S) / max(cleaned_there, BACKOFF_S)


def feed(broker: BrokerProcess, bombs: Sequence[bytes]) -> None:
    """The attack. The first segments are closed, and dirty, while the last are written."""
    with WireClient(broker.address, timeout=120) as wire:
        for each in bombs:
            assert send(wire, "hostile", each) == 0


def settled(broker: BrokerProcess) -> None:
    """Wait until all of the hostile topic but its last segment, which is still written, is clean.

    A compaction of it takes 20 s where others use the processors, too: what waited until the log
    had said nothing of it for 12 s went on in the middle of one, and called what that costs the
    other topic what is left afterwards."""
    segments = (broker.data / "hostile-0").glob("*.log")
    last = max(int(path.stem) for path in segments)
    eventually(lambda: cleaned_to(broker) >= last, seconds=600, what="it is compacted")


def cleaned_to(broker: BrokerProcess) -> int:
    """How far the hostile topic has been compacted."""
    found = re.findall(rb"compacted partition=hostile-0 from=\d+ to=(\d+)", broker.log.read_bytes())
    return int(found[-1]) if found else 0
