"""Consume, transform, produce: output = input, whatever fails in between. On our broker and on
Apache Kafka's."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from broker_kinds import KINDS, AnyBroker, either_broker
from eventually import eventually
from group_rig import BROKER, SECONDS, Rig, take

from tallymark import AsyncConsumer, Producer, SimpleConsumer
from tallymark.client import OutgoingRecord
from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, stamp_of
from tallymark.client.reading.message import Message
from tallymark.copying import Copier, Transform, positions_after, to_topic
from tallymark.errors import (
    BufferFullError,
    CommitInDoubt,
    LocalProtocolError,
    TallymarkError,
    TransactionAbortableError,
    TransactionFatalError,
    UserError,
)

_numbers = itertools.count()
COPYING: dict[str, Any] = {"enable_auto_commit": False, "isolation": "read_committed"}


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    yield from either_broker(request, tmp_path_factory.mktemp("data"), **BROKER)


class CopyRig(Rig):
    """With copiers; each call of a method that makes one makes it under an id of its own."""

    def copier(
        self, topics: str | list[str], transform: Transform, *, max_records: int = 750, **more: Any
    ) -> Copier:
        consumer = self.consumer(**COPYING | more)
        return Copier(consumer, self.transactional(), topics, transform, max_records=max_records)

    def transactional(self, name: str | None = None, **settings: Any) -> Producer:
        name = name or f"copier-{next(_numbers)}"
        made = Producer(bootstrap_servers=self.servers, transactional_id=name, **settings)
        return self._stack.enter_context(made)


@pytest.fixture
def rig(broker: AnyBroker) -> Iterator[CopyRig]:
    with ExitStack() as stack:
        yield CopyRig(broker.bootstrap_servers, stack)


def read(rig: Rig, topic: str, partition: int = 0) -> list[int]:
    """What transactions have committed to a partition; the last one's end may still be on its way
    to it when its commit returns."""
    found: list[int] = []
    with SimpleConsumer(bootstrap_servers=rig.servers, isolation="read_committed") as consumer:
        position, end = 0, consumer.end_offsets(topic)[partition]
        while position < end:
            fetched = consumer.fetch(topic, partition, position)
            found += [int(message.value or b"") for message in fetched]
            position = max(fetched.next_offset, position)
    return found


def copy_all(copier: Copier, count: int, *, through_rebalances: bool = False) -> int:
    """Steps until ``count`` messages are copied."""
    copied = 0

    def step() -> bool:
        nonlocal copied
        with suppress(*((TransactionAbortableError,) if through_rebalances else ())):
            copied += copier.step(0.1)
        return copied >= count

    eventually(step, seconds=SECONDS)
    return copied


class FailsOnce:
    """A transform that copies; before message ``at`` is copied for the first time (None: before the
    first message that comes) it does ``what``."""

    def __init__(self, topic: str, at: int | None, what: Callable[[], None]) -> None:
        self._copy = to_topic(topic)
        self._at = at
        self._what: Callable[[], None] | None = what

    def __call__(self, message: Message) -> Iterable[OutgoingRecord]:
        if self._at in (None, int(message.value or b"")) and self._what is not None:
            what, self._what = self._what, None
            what()
        return self._copy(message)


def fail() -> None:
    raise ZeroDivisionError


def test_messages_are_copied_with_their_positions(rig: CopyRig) -> None:
    source, target = rig.topic(1, 100), rig.topic()
    copier = rig.copier(source, to_topic(target), max_records=30)
    assert copy_all(copier, 100) == 100
    eventually(lambda: read(rig, target) == list(range(100)), seconds=SECONDS)
    eventually(lambda: rig.stored(source) == 100)
    assert copier.step(0) == 0


def test_key_headers_and_time_are_copied(rig: CopyRig) -> None:
    source, target = rig.topic(), rig.topic()
    rig.producer.send(source, b"v", key=b"k", headers=[("a", b"1")], timestamp=77).result(30)
    copy_all(rig.copier([source, rig.topic()], to_topic(target)), 1)
    with SimpleConsumer(bootstrap_servers=rig.servers) as consumer:
        (message, *_) = consumer.fetch(target, 0, 0).records()
    assert (message.key, message.value, message.timestamp) == (b"k", b"v", 77)
    first, stamp = message.headers
    assert first == ("a", b"1")
    assert isinstance(stamp_of([stamp]), Stamp), "the copy is a message of its own producer"


def test_a_copy_is_without_the_stamp_of_its_original() -> None:
    """A producer that is not audited sends it on, and the audit of the target counted messages that
    no producer claims."""
    headers = (("a", b"1"), (STAMP_HEADER, b"stamp"), ("b", None))
    (copy,) = to_topic("copies")(Message("t", 1, 2, 3, None, b"v", headers, 0))
    assert list(copy.headers) == [("a", b"1"), ("b", None)]


def test_after_an_exception_the_same_messages_are_read_again(rig: CopyRig) -> None:
    """The step that most loops forget: the consumer is behind the messages of the aborted
    transaction, and the next one would leave them out."""
    source, target = rig.topic(1, 60), rig.topic()
    copier = rig.copier(source, FailsOnce(target, 45, fail), max_records=20)
    copy_all(copier, 40)
    with pytest.raises(ZeroDivisionError):
        copy_all(copier, 20)
    eventually(lambda: read(rig, target) == list(range(40)), seconds=SECONDS)
    assert copy_all(copier, 20) == 20
    eventually(lambda: read(rig, target) == list(range(60)), seconds=SECONDS)


def test_what_was_read_before_any_commit_is_read_again_wherever_it_began(rig: CopyRig) -> None:
    """With ``largest`` there is no committed offset to go back to, and the end of the log has moved
    on since: the messages in between would be left out."""
    source, target = rig.topic(1, 10), rig.topic()
    transform = FailsOnce(target, 15, fail)
    copier = rig.copier(source, transform, auto_offset_reset="largest")
    assert copier.step(0) == 0  # it has begun, at 10
    rig.publish(source, 10, 10)
    with pytest.raises(ZeroDivisionError):
        copy_all(copier, 10)
    assert copy_all(copier, 10) == 10
    eventually(lambda: read(rig, target) == list(range(10, 20)), seconds=SECONDS)


@pytest.mark.process
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_rebalance_in_the_middle_aborts(rig: CopyRig, strategy: str) -> None:
    """Partitions move while their messages are at work: the transaction would commit positions that
    are another member's, which may have committed others by then."""
    source, target = rig.topic(2, 100), rig.topic(2)
    joined = threading.Event()

    def join() -> None:
        rig.stream(source, **settings)
        joined.set()

    def another_member_joins() -> None:
        first = consumer.group_metadata()
        threading.Thread(target=join).start()
        eventually(lambda: consumer.group_metadata() != first, seconds=SECONDS)

    settings = COPYING | {"partition_assignment_strategy": strategy}
    consumer = rig.consumer(**settings)
    transform = FailsOnce(target, None, another_member_joins)  # in the first transaction
    copier = Copier(consumer, rig.transactional(), source, transform)
    with pytest.raises(TransactionAbortableError, match="copier-"):
        copy_all(copier, 100)
    assert joined.wait(SECONDS)
    assert read(rig, target, 0) == read(rig, target, 1) == []
    assert (rig.stored(source, 0), rig.stored(source, 1)) == (None, None)
    eventually(lambda: len(consumer.assignment.get(source, ())) == 1, seconds=SECONDS)
    (mine,) = consumer.assignment[source]
    assert copy_all(copier, 50, through_rebalances=True) == 50  # cooperative: there is a second one
    eventually(lambda: read(rig, target, mine) == list(range(mine, 100, 2)), seconds=SECONDS)
    assert read(rig, target, 1 - mine) == []


@pytest.mark.process
def test_copiers_that_come_and_go_copy_everything_once(rig: CopyRig) -> None:
    source, target = rig.topic(3, 300), rig.topic(3)
    errors: list[BaseException] = []

    def start(until: threading.Event) -> threading.Thread:
        consumer, producer = rig.consumer(**COPYING), rig.transactional()
        copier = Copier(consumer, producer, source, to_topic(target), max_records=5)

        def run() -> None:
            try:
                with consumer, producer:
                    copier.run(until)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def copied() -> list[list[int]]:
        return [read(rig, target, partition) for partition in range(3)]

    first_ends, stop = threading.Event(), threading.Event()
    threads = [start(first_ends)]
    eventually(lambda: any(copied()), seconds=SECONDS)
    threads.append(start(stop))
    first_ends.set()
    threads.append(start(stop))
    eventually(
        lambda: errors or sum(map(len, copied())) >= 300, seconds=SECONDS, what="all are copied"
    )
    stop.set()
    for thread in threads:
        thread.join(SECONDS)
    assert not errors
    assert copied() == [list(range(partition, 300, 3)) for partition in range(3)]


def test_a_second_copier_of_an_id_fences_the_first(rig: CopyRig) -> None:
    source, target = rig.topic(1, 40), rig.topic()
    name = f"copier-{next(_numbers)}"
    consumer = rig.consumer(**COPYING)
    first = Copier(consumer, rig.transactional(name), source, to_topic(target), max_records=20)
    copy_all(first, 20)
    rig.transactional(name).init_transactions()
    with pytest.raises(TransactionFatalError):
        first.run(threading.Event())
    eventually(lambda: read(rig, target) == list(range(20)), seconds=SECONDS)


def test_a_commit_in_doubt_is_asked_for_again_and_nothing_is_read_twice(
    rig: CopyRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit may be done: going back would copy the messages again."""
    source, target = rig.topic(1, 20), rig.topic()
    producer = rig.transactional()
    copier = Copier(rig.consumer(**COPYING), producer, source, to_topic(target), max_records=10)
    commit = producer.commit_transaction

    def doubtful() -> None:
        monkeypatch.setattr(producer, "commit_transaction", commit)
        raise CommitInDoubt("copier", "no answer")

    copy_all(copier, 10)
    monkeypatch.setattr(producer, "commit_transaction", doubtful)
    with pytest.raises(CommitInDoubt):
        copy_all(copier, 10)
    assert copier.step(0) == 0
    eventually(lambda: read(rig, target) == list(range(20)), seconds=SECONDS)


def test_a_record_that_the_buffer_drops_is_not_left_out(rig: CopyRig) -> None:
    """With ``on_buffer_full="drop"`` a producer drops records without an exception: the transaction
    would be committed without them."""
    source, target = rig.topic(1, 200), rig.topic()
    large = b"." * 900

    def enlarge(message: Message) -> list[OutgoingRecord]:
        return [OutgoingRecord(target, b"%s" % message.value, headers=(("x", large),))]

    producer = rig.transactional(on_buffer_full="drop", buffer_memory=40_000, linger_ms=500)
    copier = Copier(rig.consumer(**COPYING), producer, source, enlarge, max_records=200)
    with pytest.raises(BufferFullError):
        copy_all(copier, 200)
    assert producer.dropped > 0
    assert read(rig, target) == []


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"enable_auto_commit": True}, "enable_auto_commit=False"),
        ({"isolation": "read_uncommitted"}, "read_committed"),
    ],
)
def test_a_consumer_that_would_copy_twice_is_refused(
    rig: CopyRig, settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UserError, match=reason):
        rig.copier("t", to_topic("u"), **settings)


def test_a_producer_without_transactions_is_refused(rig: CopyRig) -> None:
    copier = Copier(rig.consumer(**COPYING), rig.producer, rig.topic(), to_topic("u"))
    with pytest.raises(LocalProtocolError, match="transactional_id"):
        copier.step(0)


def test_a_member_of_nothing_names_itself_to_nobody(rig: CopyRig) -> None:
    """Metadata without a member are not checked by a coordinator: a consumer that was put out of
    its group could commit what is another's by now."""
    topic = rig.topic(1, 5)
    consumer = rig.consumer(**COPYING)
    with pytest.raises(UserError, match="no streams yet"):
        consumer.group_metadata()
    (stream,) = consumer.create_message_streams({topic: 1})[topic]
    take(stream, 5)
    group = consumer.group_metadata()
    assert group.group_id == rig.group
    assert group.generation_id >= 1
    assert group.member_id


def test_a_coroutine_goes_back_and_commits_what_it_read(rig: CopyRig) -> None:
    source, target = rig.topic(1, 10), rig.topic()
    producer = rig.transactional()
    producer.init_transactions()

    async def work() -> None:
        settings = COPYING | {"group": rig.group, "bootstrap_servers": rig.servers}
        async with AsyncConsumer(**settings).subscribe(source) as consumer:
            for attempt in range(2):
                group = consumer.group_metadata()
                messages = [await anext(consumer) for _ in range(10)]
                producer.begin_transaction()
                for message in messages:
                    producer.send(target, message.value)
                producer.send_offsets_to_transaction(positions_after(messages), group)
                if attempt:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
                    moved = await consumer.rewind_to_committed({(source, 0): 0})
                    assert moved == {(source, 0): 0}

    asyncio.run(work())
    eventually(lambda: read(rig, target) == list(range(10)), seconds=SECONDS)
    eventually(lambda: rig.stored(source) == 10)


def test_positions_are_behind_the_last_message_of_each_partition() -> None:
    def message(partition: int, offset: int) -> Message:
        return Message("t", partition, offset, 0, None, b"", (), 0)

    messages = [message(0, 4), message(1, 9), message(0, 5)]
    assert positions_after(messages) == {("t", 0): 6, ("t", 1): 10}


def test_run_raises_what_does_not_pass(rig: CopyRig) -> None:
    source = rig.topic(1, 3)

    def refuse(message: Message) -> list[OutgoingRecord]:
        raise UserError(f"{message.value!r} is no order", "mend the sender")

    with pytest.raises(TallymarkError, match="no order"):
        rig.copier(source, refuse).run(threading.Event())


def test_the_consumer_fits_the_copier(rig: CopyRig) -> None:
    with pytest.raises(UserError, match="no topic"):
        rig.copier([], to_topic("u"))
    with pytest.raises(UserError, match="max_records"):
        rig.copier("t", to_topic("u"), max_records=0)
