"""Two copiers of 100,000 records, 750 a transaction, while brokers, coordinators and copiers are
killed, bounced and paused, in both protocols (Apache Kafka's transactions_test): the output is the
input, no record twice, in order, also as a committed reader sees it meanwhile."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from broker_process import BrokerProcess
from copied_cluster import SETTINGS, copied_cluster, no_traceback
from copies_judged import CIRCLE, TARGET
from copy_story import COUNT, CircleStory, CopyStory, Hijacker, create_topics
from left_open import leave_open

from tallymark import Producer
from tallymark.protocol.records.batch import split_batches
from tallymark.protocol.records.writer import encode_batch
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC
from tallymark.transactions.records import decode_key, decode_value, encode_key, encode_value

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(1800)]
FAULTS = ("kill", "bounce", "pause")
PROTOCOLS = (1, 2)
PAUSED_SECONDS = 4
"""Longer than the sessions of copiers and brokers: others take over, and it comes back a zombie."""
HOPS = 10
Victim = Any
"""A BrokerProcess or a CopierProcess: both are started, killed, stopped, paused and resumed."""


def harm(fault: str, victim: Victim) -> None:
    """One fault; at its end the victim runs."""
    if fault == "pause":
        victim.pause()
        try:
            sleep(PAUSED_SECONDS)
        finally:
            victim.resume()
        return
    victim.kill() if fault == "kill" else victim.stop()
    victim.start()


def run(story: CopyStory, fault: str, victim: Callable[[], Victim]) -> None:
    """Three times the fault, while the copiers are at work."""
    for part in (0.1, 0.35, 0.6):
        story.until(part)
        harm(fault, victim())
    story.finish()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, **SETTINGS) as running:
        create_topics(running.address, replicas=1)
        yield running
        no_traceback(running)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("which", ["broker", "copier"])
def test_one_broker(
    broker: BrokerProcess, tmp_path: Path, which: str, fault: str, protocol: int
) -> None:
    with CopyStory(tmp_path, broker.address, COUNT, protocol=protocol) as story:
        run(story, fault, lambda: broker if which == "broker" else story.copiers[0])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("which", ["broker", "coordinator", "copier"])
def test_three_brokers(tmp_path: Path, which: str, fault: str, protocol: int) -> None:
    with copied_cluster(tmp_path, protocol) as cluster:

        def victim() -> Victim:
            if which == "copier":
                return story.copiers[0]
            topic = TARGET if which == "broker" else TRANSACTIONS_TOPIC
            cluster.wait_until_whole(topic)
            return cluster.brokers[cluster.leader(topic)]

        with CopyStory(tmp_path, cluster.addresses, COUNT, protocol=protocol) as story:
            run(story, fault, victim)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", FAULTS)
def test_in_a_circle(tmp_path: Path, fault: str, protocol: int) -> None:
    """Both copy a topic to itself, so what each reads is the other's: broker and copiers in turn
    are harmed. No transaction may read what is written by one that has read from it (G1c)."""
    with BrokerProcess(tmp_path, **SETTINGS) as broker:
        create_topics(broker.address, 1, CIRCLE)
        with CircleStory(
            tmp_path, broker.address, COUNT // 50, HOPS, protocol=protocol, max_records=25
        ) as story:
            victims: itertools.cycle[Victim] = itertools.cycle((broker, *story.copiers))
            run(story, fault, lambda: next(victims))
        no_traceback(broker)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_transaction_in_ten_is_aborted(
    broker: BrokerProcess, tmp_path: Path, protocol: int
) -> None:
    with CopyStory(tmp_path, broker.address, COUNT, protocol=protocol, aborts=0.1) as story:
        story.finish()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_id_is_hijacked_every_second(
    broker: BrokerProcess, tmp_path: Path, protocol: int
) -> None:
    """The copier is fenced, takes its id back, and so on; what the hijacker has written in a
    transaction of its own is not read."""
    with CopyStory(tmp_path, broker.address, COUNT, protocol=protocol, max_records=25) as story:
        hijacker = Hijacker(broker.address, story.copiers[0].name)
        hijacker.start()
        with contextlib.ExitStack() as stack:
            stack.callback(hijacker.finish)
            story.until(0.9)
        story.finish()
        assert b"fenced" in story.copiers[0].log.read_bytes(), f"taken {hijacker.taken} times"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_producers_die_with_transactions_open(
    broker: BrokerProcess, tmp_path: Path, protocol: int
) -> None:
    """Each of them keeps committed readers waiting until the coordinator has aborted it, while the
    copiers write on behind it; what it wrote is never read."""
    with CopyStory(tmp_path, broker.address, COUNT, protocol=protocol) as story:
        for number in range(4):
            story.until(number / 5)
            leave_open(broker.address, f"dead-{number}", TARGET, timeout_ms=1000)
        story.finish()
        assert broker.log.read_text().count("aborted after its timeout") >= 4


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_epochs_rotate_in_the_middle(broker: BrokerProcess, tmp_path: Path, protocol: int) -> None:
    """Ids whose epochs are near the last one, 32,766: they rotate to other producer ids in the
    middle of the copy (KAFKA-18660, 20090). In the older protocol each abort of a lost copier
    raises the epoch, in the newer one each transaction."""
    names = ["copier-0", "copier-1"]
    for name in names:
        with Producer(bootstrap_servers=broker.address, transactional_id=name) as producer:
            producer.init_transactions()
    broker.kill()
    for name in names:
        set_epoch(broker, name, 32_760)
    broker.start()
    before = {name: producer_id(broker, name) for name in names}
    with CopyStory(
        tmp_path, broker.address, COUNT // 10, protocol=protocol, max_records=100
    ) as story:
        for part in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
            story.until(part)
            for copier in story.copiers:
                copier.kill()
                copier.start()
        story.finish()
    after = {name: producer_id(broker, name) for name in names}
    assert all(before[name] != after[name] for name in names), (before, after)


def state_log(broker: BrokerProcess) -> Path:
    return broker.data / f"{TRANSACTIONS_TOPIC}-0" / f"{0:020d}.log"


def states(broker: BrokerProcess) -> dict[str, bytes]:
    """Id -> the last value in the log of ``__transaction_state``, which is of one segment."""
    found: dict[str, bytes] = {}
    for batch in split_batches(state_log(broker).read_bytes()):
        for record in batch.records():
            name = decode_key(record.key or b"")
            if name is not None and record.value is not None:
                found[name] = record.value
    return found


def set_epoch(broker: BrokerProcess, name: str, epoch: int) -> None:
    """Append to the log of a broker that is down."""
    path = state_log(broker)
    last = split_batches(path.read_bytes())[-1].header
    state = replace(decode_value(name, states(broker)[name]), producer_epoch=epoch)
    record = (encode_key(name), encode_value(state, 1), (), state.updated_ms)
    with path.open("ab") as log:
        log.write(
            encode_batch(
                [record],
                base_offset=last.next_offset,
                leader_epoch=last.partition_leader_epoch,
            )
        )


def producer_id(broker: BrokerProcess, name: str) -> int:
    return decode_value(name, states(broker)[name]).producer_id
