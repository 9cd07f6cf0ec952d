"""``kill -9`` under load: everything acknowledged is read, in order, once; the log verifies."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from confluent_kafka import Consumer
from produce_consume_validate import (
    ConfluentWriter,
    TallymarkWriter,
    Writer,
    parse,
    validate,
)

from tallymark.client import Admin
from tallymark.log import OsFiles
from tallymark.log.compaction.checkpoint import read_clean_points
from tallymark.log.disk.partition_folder import LogKey

pytestmark = pytest.mark.process

KEYS = 50


class GroupReader(threading.Thread):
    """A consumer of a group that commits what it has read. It sees every message at least once:
    after a kill some again, but none of a committed offset."""

    def __init__(self, address: str, topic: str) -> None:
        super().__init__(name="group-reader", daemon=True)
        self.seen: set[tuple[str, int]] = set()
        self.commits = 0
        self._address = address
        self._topic = topic
        self._enough = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._enough.is_set():
                self._membership()
        except BaseException as error:  # raised in finish()
            self._error = error

    def _membership(self) -> None:
        """One consumer; it leaves after a while and another one goes on where it has committed."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._address,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        consumer.subscribe([self._topic])
        until = time.monotonic() + 10
        try:
            while not self._enough.is_set() and time.monotonic() < until:
                messages = [m for m in consumer.consume(500, 0.2) if m.error() is None]
                self.seen |= {parse(message.value() or b"") for message in messages}
                if messages:
                    self._commit(consumer)
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer) -> None:
        try:
            consumer.commit(asynchronous=False)
            self.commits += 1
        except Exception:  # the broker is down: what follows is read again, or committed later
            return

    def wait_for(self, wanted: set[tuple[str, int]], seconds: float) -> None:
        """Until all of these were seen."""
        deadline = time.monotonic() + seconds
        while not wanted <= self.seen:
            assert self._error is None, self._error
            assert time.monotonic() < deadline, (
                f"the group has not seen {len(wanted - self.seen)} of {len(wanted)}, such as "
                f"{sorted(wanted - self.seen)[:3]}; {self.commits} commits"
            )
            time.sleep(0.2)

    def finish(self) -> None:
        self._enough.set()
        self.join(60)
        if self._error is not None:
            raise self._error


KEYED = LogKey("keyed", 0)


def start_broker(folder: Path) -> BrokerProcess:
    """Segments, checkpoints, snapshots and compactions come often, so that a kill meets them."""
    return BrokerProcess(
        folder,
        log_segment_bytes=100_000,
        log_flush_interval_messages=500,
        log_flush_offset_checkpoint_interval_ms=300,
        log_cleaner_backoff_ms=50,
        log_cleaner_min_cleanable_ratio=0.01,
        log_retention_ms=-1,
        group_initial_rebalance_delay_ms=100,
    )


def kill_under_load(folder: Path, kills: int, seed: int, *, group: bool) -> None:
    rng = random.Random(seed)
    with start_broker(folder) as broker:
        with Admin(bootstrap_servers=broker.address) as admin:
            admin.create_topic("plain", 1, {})
            admin.create_topic("keyed", 1, {"cleanup.policy": "compact"})
        plain: list[Writer] = [
            ConfluentWriter("confluent", broker.address, "plain", keys=0, pause=0.015),
            TallymarkWriter("tallymark", broker.address, "plain", keys=0, pause=0.015),
        ]
        keyed: list[Writer] = [
            ConfluentWriter("keyed", broker.address, "keyed", keys=KEYS, pause=0.015)
        ]
        reader = GroupReader(broker.address, "plain") if group else None
        for writer in (*plain, *keyed):
            writer.start()
        if reader is not None:
            reader.start()
        workers: set[int] = set()
        for _ in range(kills):
            wait_for_progress([*plain, *keyed], 300)
            time.sleep(rng.random() * 0.5)
            workers |= broker.children()
            broker.kill()
            if rng.random() < 0.2:
                time.sleep(rng.random())
            broker.start()
        wait_for_progress([*plain, *keyed], 300)
        wait_for_compaction(broker, [*plain, *keyed])
        for writer in (*plain, *keyed):
            writer.finish()
        checks = [
            ("plain", validate(broker.address, "plain", plain, broker.data)),
            ("keyed", validate(broker.address, "keyed", keyed, broker.data, compacted=True)),
        ]
        for topic, outcome in checks:
            print(f"{kills} kills, {topic}: {outcome}")
        if reader is not None:
            acked = {(one.writer, one.number) for writer in plain for one in writer.acked}
            reader.wait_for(acked, 60)
            reader.finish()
            print(f"group: {len(reader.seen)} seen, {reader.commits} commits")
        workers |= broker.children()
        broker.stop()
        assert workers, "no compaction was under way"
        wait_until(lambda: not any(is_compacting(pid) for pid in workers), [])
        for topic, outcome in checks:
            assert outcome.problems == [], f"{topic}: {outcome}"
        keyed_outcome = checks[1][1]
        assert keyed_outcome.read < keyed_outcome.acked, "nothing was compacted"
        verify_log(broker)
        text = broker.log.read_text(errors="replace")
        assert "Traceback" not in text, text[max(text.find("Traceback") - 500, 0) :][:3000]


def is_compacting(pid: int) -> bool:
    """Whether the process is there and is one that compacts (ids are given again)."""
    try:
        return b"compaction_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


def wait_for_progress(writers: list[Writer], count: int) -> None:
    """Until each of the writers was acknowledged so many more, so that a kill is in the middle."""
    targets = [(writer, len(writer.acked) + count) for writer in writers]
    wait_until(lambda: all(len(writer.acked) >= target for writer, target in targets), writers)


def wait_for_compaction(broker: BrokerProcess, writers: list[Writer]) -> None:
    """Until the keyed log was compacted, while the writers go on. On a slow machine all kills were
    over before its first segment was full: nothing was there to be compacted, and the test failed
    with "nothing was compacted" though nothing was wrong."""

    def is_compacted() -> bool:
        return read_clean_points(OsFiles(), str(broker.data)).get(KEYED, 0) > KEYS

    wait_until(is_compacted, writers)


def wait_until(holds: Callable[[], bool], writers: list[Writer]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, {
            writer.name: (writer.sent, len(writer.acked), writer.failed[:3]) for writer in writers
        }
        time.sleep(0.02)


def verify_log(broker: BrokerProcess) -> None:
    """``tallymark verify-log`` finds no damage in the folder of the stopped broker."""
    result = subprocess.run(
        [sys.executable, "-m", "tallymark", "verify-log", "--deep", str(broker.data)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_few_kills(tmp_path: Path) -> None:
    kill_under_load(tmp_path, 3, 1, group=False)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2])
def test_many_kills_with_a_group_that_reads(tmp_path: Path, seed: int) -> None:
    kill_under_load(tmp_path, 40, seed, group=True)
