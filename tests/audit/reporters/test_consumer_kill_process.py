"""Members of a group that are killed with messages processed and not yet reported: what the next
one processes again is named. Real processes and ``kill -9``."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallymark.client import ConsumerConnector, Producer, SimpleConsumer
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit import ConsumerAudit
from tallymark_audit.events.claim_book import fold
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.judge.processed import processed_cells
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.repeats import sequences_of
from tallymark_audit.model.sides import merge_observations

pytestmark = pytest.mark.process

COUNT = 300


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerThread(
        tmp_path_factory.mktemp("data"),
        num_partitions=1,
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=500,
    ) as running:
        yield running.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:
    """One partition with :data:`COUNT` stamped messages: sequences 0 and on at offsets 0 and on."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Producer(bootstrap_servers=servers, server="web", audit=False, stamp=True) as producer:
        for number in range(COUNT):
            producer.send(name, b"v%d" % number)
    return name


SETUP = """
import os, signal, sys, time
from tallymark.client import ConsumerConnector, SimpleConsumer
from tallymark_audit import ConsumerAudit
servers, topic, folder = sys.argv[1:]
audit = ConsumerAudit(group=topic, bootstrap_servers=servers, window_ms=1000, journal_dir=folder)
def connector(**more):
    return ConsumerConnector(group=topic, bootstrap_servers=servers, hooks=[audit],
                             session_timeout_ms=1500, start_timeout_ms=30000, **more)
def stream_of(consumer):
    return consumer.create_message_streams({topic: 1})[topic][0]
def wait_for_journal():
    while not os.path.exists(audit._journal.path):
        time.sleep(0.01)
def die():
    os.kill(os.getpid(), signal.SIGKILL)
wait_for_journal()
"""


def killed(code: str, servers: str, topic: str, folder: Path) -> None:
    """Run the code; it kills itself."""
    died = subprocess.run(
        [sys.executable, "-c", SETUP + code, servers, topic, str(folder)],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()


def read_the_rest(servers: str, topic: str, folder: Path) -> list[int]:
    """The next member: processes what is stored as not processed, and closes. Returns offsets."""
    audit = ConsumerAudit(
        group=topic, bootstrap_servers=servers, window_ms=1000, journal_dir=folder
    )
    consumer = ConsumerConnector(
        group=topic,
        bootstrap_servers=servers,
        hooks=[audit],
        consumer_timeout_ms=30_000,
        start_timeout_ms=30_000,
    )
    stream = consumer.create_message_streams({topic: 1})[topic][0]
    found: list[int] = []
    while not found or found[-1] < COUNT - 1:
        found.append(next(stream).offset)
    stream.poll()
    consumer.close()
    return found


def events(servers: str, group: str) -> list[AuditEvent]:
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        found: list[AuditEvent] = []
        offset, end = 0, consumer.end_offsets(AUDIT_TOPIC)[0]
        while offset < end:
            fetched = consumer.fetch(AUDIT_TOPIC, 0, offset)
            found += [decode_event(one.value or b"") for one in fetched]
            offset = fetched.next_offset
    return [event for event in found if event.consumer_group == group]


def told(servers: str, group: str) -> tuple[RangeSet, RangeSet, RangeSet]:
    """What all runs together say: processed, processed more than once, in doubt."""
    book = fold(events(servers, group))
    assert all(reporter.closed for reporter in book.reporters.values())
    once = again = doubt = EMPTY
    for cell in merge_observations(
        one for claim in book.processed(group) for one in processed_cells(claim)
    ).values():
        assert cell.repeated is not None, "the repeats have names"
        once, again = once | cell.ranges, again | sequences_of(cell.repeated)
    for claim in book.processed(group):
        doubt = doubt | claim.in_doubt
    return once, again, doubt


def test_what_a_killed_member_processed_unreported_is_named(
    servers: str, topic: str, tmp_path: Path
) -> None:
    """A member was killed with 58 messages processed since it last stored its offsets. The next
    member processed them again, and the audit said COMPLETE. (The member that is killed is at
    message 158: it may have processed it.)"""
    code = """
consumer = connector(auto_commit_interval_ms=3_600_000)
stream = stream_of(consumer)
for message in stream:
    if message.offset == 100:
        consumer.commit_offsets({(topic, 0): 100})
    if message.offset == 158:
        die()
"""
    killed(code, servers, topic, tmp_path)
    assert read_the_rest(servers, topic, tmp_path) == list(range(100, COUNT))
    everything = RangeSet.single(0, COUNT - 1)
    wanted = everything, RangeSet.single(100, 157), RangeSet.single(158, 158)
    assert told(servers, topic) == wanted
    assert not list(tmp_path.iterdir()), "journals and marks are gone when they are published"


def test_two_members_killed_in_turn(servers: str, topic: str, tmp_path: Path) -> None:
    """Each had processed the same messages and reported nothing."""
    code = """
for message in stream_of(connector(auto_commit_interval_ms=3_600_000)):
    if message.offset == 50:
        die()
"""
    killed(code, servers, topic, tmp_path)
    killed(code, servers, topic, tmp_path)
    assert read_the_rest(servers, topic, tmp_path)[0] == 0
    once, again, doubt = told(servers, topic)
    assert once.size == COUNT
    assert (again, doubt) == (RangeSet.single(0, 49), RangeSet.single(50, 50))


def test_a_list_in_hand_is_in_doubt(servers: str, topic: str, tmp_path: Path) -> None:
    """Nobody knows how many of a list that ``poll`` gave the application had processed."""
    code = """
stream = stream_of(connector(auto_commit_interval_ms=3_600_000))
first = stream.poll(30, max_messages=40)
assert len(first) == 40
second = stream.poll(30, max_messages=30)
assert len(second) == 30
die()
"""
    killed(code, servers, topic, tmp_path)
    read_the_rest(servers, topic, tmp_path)
    _, again, doubt = told(servers, topic)
    assert (again, doubt) == (RangeSet.single(0, 39), RangeSet.single(40, 69))


def test_who_stores_offsets_alone_has_all_since_then_in_hand(
    servers: str, topic: str, tmp_path: Path
) -> None:
    """With ``enable_auto_commit=False`` asking for the next message does not say that one is done
    with those before: the application may collect them."""
    code = """
consumer = connector(enable_auto_commit=False)
stream = stream_of(consumer)
for number in range(80):
    next(stream)
    if number == 29:
        consumer.commit_offsets()
die()
"""
    killed(code, servers, topic, tmp_path)
    assert read_the_rest(servers, topic, tmp_path)[0] == 30
    _, again, doubt = told(servers, topic)
    assert (again, doubt) == (EMPTY, RangeSet.single(30, 79))


def test_an_application_with_another_client_that_is_killed(
    servers: str, topic: str, tmp_path: Path
) -> None:
    """It says of each message that it is processed, and dies before it flushes."""
    code = """
with SimpleConsumer(bootstrap_servers=servers) as consumer:
    for message in consumer.fetch(topic, 0, 0):
        audit.processed(message)
        if message.offset == 57:
            die()
"""
    killed(code, servers, topic, tmp_path)
    read_the_rest(servers, topic, tmp_path)
    _, again, doubt = told(servers, topic)
    assert (again, doubt) == (RangeSet.single(0, 57), EMPTY)
