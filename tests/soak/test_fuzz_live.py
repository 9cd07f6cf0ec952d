"""A real broker process is sent mutated frames of every API it serves: it stays alive, remembers
nothing of it, and serves others meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from as_before import assert_as_before
from broker_process import BrokerProcess
from live_fuzz import HealthyClient, fuzz, quiet_rounds
from random_requests import TOPICS

from tallymark.client import Admin

pytestmark = pytest.mark.process

MIB = 1 << 20
SEED = 20_261_121


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    return BrokerProcess(
        tmp_path,
        auto_create_topics_enable="false",
        log_retention_bytes=8 * MIB,
        log_segment_bytes=MIB,
        log_retention_check_interval_ms=1000,
        group_max_session_timeout_ms=10_000,
    )


def wait_for(holds: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def attack(
    broker: BrokerProcess, frames: int, growth_bytes: int
) -> tuple[list[float], list[float]]:
    """The flow: warm up, note what is in use, attack, and compare. Returns the seconds that a round
    of a client took before and after."""
    with broker:
        with Admin(bootstrap_servers=broker.address) as admin:
            for topic in TOPICS:
                admin.create_topic(topic, 2, {})
        fuzz(broker.address, 2000, SEED + 1)
        assert wait_for(lambda: broker.open_files()[0] < 10)
        before = quiet_rounds(broker.address)
        assert wait_for(lambda: broker.open_files()[0] < 10)
        memory, (sockets, others) = broker.rss_bytes(), broker.open_files()
        healthy = HealthyClient(broker.address)
        healthy.start()
        began = time.monotonic()
        try:
            sent = fuzz(broker.address, frames, SEED)
            seconds = time.monotonic() - began
        finally:
            rounds = healthy.finish()
        assert broker.is_alive, broker.log.read_text()[-5000:]
        print(
            f"{sent.frames} frames on {sent.connections} connections in {seconds:.0f} s "
            f"({sent.frames / seconds:.0f}/s), at least {sent.handled} handled; "
            f"{sent.answers} answers, {sent.closed} closed by the broker; healthy client: "
            f"{rounds} rounds, slowest {max(healthy.seconds) * 1000:.0f} ms; memory "
            f"{memory // MIB} -> {broker.rss_bytes() // MIB} MiB, files {others} -> "
            f"{broker.open_files()[1]}"
        )
        assert sent.handled > frames // 10, "most frames were never looked at"
        assert wait_for(lambda: broker.open_files()[0] <= sockets), "connections are stuck"
        assert broker.open_files()[1] <= others + 300
        assert broker.rss_bytes() - memory < growth_bytes
        after = quiet_rounds(broker.address)
        assert_no_traceback(broker)
        broker.stop()
        assert_no_traceback(broker)
    return before, after


def assert_no_traceback(broker: BrokerProcess) -> None:
    """A request that is refused is a line in the log; a traceback is a bug."""
    text = broker.log.read_text(errors="replace")
    place = text.find("Traceback")
    assert place < 0, text[max(place - 500, 0) : place + 3000]


def test_3_000_mutated_frames(broker: BrokerProcess) -> None:
    attack(broker, 3_000, 60 * MIB)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_1_000_000_mutated_frames(broker: BrokerProcess) -> None:
    before, after = attack(broker, 1_000_000, 200 * MIB)
    assert_as_before(before, after, 0.002, "write and read, s")
