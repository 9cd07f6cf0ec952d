"""What a transactional producer tells its interceptors, and how they publish beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
from tallymark.client.producing.producer import Producer
from tallymark.errors import (
    CODES,
    CommitInDoubt,
    TransactionAbortableError,
    TransactionFatalError,
)
from tallymark.protocol.api import ApiKey
from tallymark.protocol.messages import ProduceRequest
from tallymark.testing.scripted_broker import HangUp, Refuse
from tallymark.testing.scripted_coordinator import ScriptedCoordinator

OPEN, ENDING = TransactionStage.OPEN, TransactionStage.ENDING
COMMITTED, ABORTED = TransactionStage.COMMITTED, TransactionStage.ABORTED
IN_DOUBT = TransactionStage.IN_DOUBT


class Recorder:
    """A ProducerInterceptor that keeps what it is told, in order; reports are "acked" or the name
    of an error."""

    context: ProducerContext

    def __init__(self) -> None:
        self.told: list[TransactionStage | str] = []
        self.asked: list[int] = []
        """How many EndTxn requests had come when it was told of ENDING."""
        self.count_ends: Callable[[], int] = lambda: 0

    def attach(self, context: ProducerContext) -> None:
        self.context = context

    def on_send(self, batch: BatchTally) -> None:
        self.told.append("sent")

    def on_acknowledged(self, batch: BatchTally, base_offset: int) -> None:
        self.told.append("acked")

    def on_failed(self, batch: BatchTally, error: Exception, in_doubt: bool) -> None:
        self.told.append(type(error).__name__)

    def on_split(self, batch: BatchTally, parts: Sequence[BatchTally]) -> None:
        pass

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        pass

    def on_transaction(self, stage: TransactionStage) -> None:
        self.told.append(stage)
        if stage is ENDING:
            self.asked.append(self.count_ends())

    def on_close(self, now_ms: int) -> None:
        self.told.append("closed")


@pytest.fixture(params=[2, 0], ids=["TV2", "TV1"])
def broker(request: pytest.FixtureRequest) -> Iterator[ScriptedCoordinator]:
    with ScriptedCoordinator(request.param) as running:
        yield running


@pytest.fixture
def recorder(broker: ScriptedCoordinator) -> Recorder:
    one = Recorder()
    one.count_ends = lambda: broker.count(ApiKey.END_TXN)
    return one


@pytest.fixture
def producer(broker: ScriptedCoordinator, recorder: Recorder) -> Iterator[Producer]:
    with Producer(
        bootstrap_servers=broker.address,
        transactional_id="id",
        retry_backoff_ms=5,
        linger_ms=0,
        audit=False,
        stamp=True,
        interceptors=[recorder],
    ) as made:
        made.init_transactions()
        yield made


def refuse(name: str) -> Refuse:
    return Refuse(CODES[name])


def test_a_commit_is_told_before_it_is_asked_for_and_when_it_is_done(
    producer: Producer, recorder: Recorder
) -> None:
    with producer.transaction():
        producer.send("t", b"a")
    assert recorder.told == [OPEN, "sent", "acked", ENDING, COMMITTED]
    assert recorder.asked == [0]


def test_the_records_of_an_abort_have_their_end_before_it(
    producer: Producer, recorder: Recorder
) -> None:
    producer.begin_transaction()
    producer.send("t", b"a")
    producer.flush()
    producer.send("t", b"b")
    producer.abort_transaction()
    assert recorder.told[:4] == [OPEN, "sent", "acked", "sent"]
    assert recorder.told[4:] in (
        ["acked", ABORTED],
        [TransactionAbortableError.__name__, ABORTED],
    )


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_transaction_without_records_has_an_end_too(
    producer: Producer, recorder: Recorder, end: str
) -> None:
    producer.begin_transaction()
    getattr(producer, f"{end}_transaction")()
    assert recorder.told == [OPEN, COMMITTED if end == "commit" else ABORTED]


def test_a_commit_whose_answer_is_not_known_has_no_end_until_it_is(
    producer: Producer, recorder: Recorder, broker: ScriptedCoordinator
) -> None:
    producer.begin_transaction()
    producer.send("t", b"a")
    producer.flush()
    broker.script(ApiKey.END_TXN, *[HangUp()] * 1000)
    with pytest.raises(CommitInDoubt):
        producer.commit_transaction(timeout=0.1)
    assert set(recorder.told[3:]) == {ENDING}
    broker.unscript(ApiKey.END_TXN)
    producer.commit_transaction()
    assert recorder.told[-1] is COMMITTED


def test_a_commit_in_doubt_of_a_producer_that_is_fenced_stays_in_doubt(
    producer: Producer, recorder: Recorder, broker: ScriptedCoordinator
) -> None:
    producer.begin_transaction()
    producer.send("t", b"a")
    producer.flush()
    broker.script(ApiKey.END_TXN, HangUp(after_append=True), refuse("PRODUCER_FENCED"))
    with pytest.raises(CommitInDoubt):
        producer.commit_transaction()
    assert recorder.told[3:] == [ENDING, IN_DOUBT]


def test_a_commit_that_is_refused_for_good_was_an_abort(
    producer: Producer, recorder: Recorder, broker: ScriptedCoordinator
) -> None:
    """The coordinator had aborted it after its time, or another producer had fenced it."""
    producer.begin_transaction()
    producer.send("t", b"a")
    producer.flush()
    broker.script(ApiKey.END_TXN, refuse("PRODUCER_FENCED"))
    with pytest.raises(TransactionFatalError):
        producer.commit_transaction()
    assert recorder.told[3:] == [ENDING, ABORTED]


def test_a_producer_that_loses_its_id_in_a_transaction_has_aborted_it(
    producer: Producer, recorder: Recorder, broker: ScriptedCoordinator
) -> None:
    """commit_transaction() that waited for the batch sent an abort then, and returned as if it had
    committed."""
    broker.script(ApiKey.PRODUCE, refuse("PRODUCER_FENCED"))
    producer.begin_transaction()
    producer.send("t", b"a")
    with pytest.raises(TransactionFatalError):
        producer.commit_transaction()
    assert broker.decided == []
    assert recorder.told[:2] == [OPEN, "sent"]
    assert recorder.told[-1] is ABORTED
    assert ENDING not in recorder.told


def test_close_ends_an_open_transaction_before_the_last_report(
    producer: Producer, recorder: Recorder
) -> None:
    producer.begin_transaction()
    producer.send("t", b"a")
    producer.close()
    assert recorder.told[-2:] == [ABORTED, "closed"]


@pytest.mark.parametrize("within", [False, True])
def test_reports_are_no_part_of_a_transaction(
    producer: Producer, recorder: Recorder, broker: ScriptedCoordinator, within: bool
) -> None:
    """Reports about a transaction must be there whatever becomes of it."""
    if within:
        producer.begin_transaction()
        producer.send("t", b"a")
    told = recorder.context.publish("_reports", None, b"report", 5)
    if within:
        producer.abort_transaction()
    assert told.result(30).topic == "_reports"
    sent = [one for api, _, one in broker.requests if api is ApiKey.PRODUCE]
    assert {one.transactional_id for one in sent if _topics(one) == {"_reports"}} == {None}
    assert {one.transactional_id for one in sent if _topics(one) == {"t"}} <= {"id"}
    assert all(len(_topics(one)) == 1 for one in sent)
    assert broker.count(ApiKey.ADD_PARTITIONS_TO_TXN) <= 1


def test_a_report_that_cannot_be_sent_leaves_the_transaction_alone(
    producer: Producer, recorder: Recorder, broker: ScriptedCoordinator
) -> None:
    producer.begin_transaction()
    broker.script(ApiKey.PRODUCE, refuse("TOPIC_AUTHORIZATION_FAILED"))
    told = recorder.context.publish("_reports", None, b"report", 5)
    assert told.exception(5) is not None
    producer.send("t", b"a")
    producer.commit_transaction()
    assert [committed for _, committed in broker.decided] == [True]


def _topics(request: ProduceRequest) -> set[str]:
    return {topic.name for topic in request.topic_data}
