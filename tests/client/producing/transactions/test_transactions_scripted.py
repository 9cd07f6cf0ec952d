"""A transactional producer whose coordinator does not answer, moves, refuses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tallymark.client.producing.producer import Producer
from tallymark.errors import (
    CODES,
    CommitInDoubt,
    LocalProtocolError,
    TransactionAbortableError,
    TransactionFatalError,
    UserError,
)
from tallymark.protocol.api import ApiKey
from tallymark.testing.scripted_broker import HangUp, Refuse
from tallymark.testing.scripted_coordinator import ScriptedCoordinator


@pytest.fixture(params=[2, 0], ids=["TV2", "TV1"])
def broker(request: pytest.FixtureRequest) -> Iterator[ScriptedCoordinator]:
    with ScriptedCoordinator(request.param) as running:
        yield running


@pytest.fixture
def producer(broker: ScriptedCoordinator) -> Iterator[Producer]:
    with Producer(
        bootstrap_servers=broker.address,
        transactional_id="id",
        retry_backoff_ms=5,
        linger_ms=0,
        audit=False,
    ) as made:
        made.init_transactions()
        yield made


def refuse(name: str) -> Refuse:
    return Refuse(CODES[name])


def inits(broker: ScriptedCoordinator) -> int:
    return broker.count(ApiKey.INIT_PRODUCER_ID)


def test_partitions_are_added_before_their_first_batch_in_the_older_protocol_only(
    producer: Producer, broker: ScriptedCoordinator
) -> None:
    with producer.transaction():
        producer.send("t", b"a")
    order = [
        api.name for api, *_ in broker.requests if api.name in ("ADD_PARTITIONS_TO_TXN", "PRODUCE")
    ]
    old = broker.level < 2
    assert order == (["ADD_PARTITIONS_TO_TXN", "PRODUCE"] if old else ["PRODUCE"])
    versions = {api: version for api, version, _ in broker.requests}
    assert (versions[ApiKey.PRODUCE] < 12, versions[ApiKey.END_TXN] < 5) == (old, old)
    batches = [sent for api, _, sent in broker.requests if api is ApiKey.PRODUCE]
    assert [one.transactional_id for one in batches] == ["id"]


@pytest.mark.parametrize("decided", [True, False])
def test_a_commit_whose_answer_is_lost_is_asked_for_again(
    producer: Producer, broker: ScriptedCoordinator, decided: bool
) -> None:
    """KAFKA-17754: in the older protocol the next transaction has a new epoch then."""
    broker.script(ApiKey.END_TXN, HangUp(after_append=decided))
    with producer.transaction():
        producer.send("t", b"a")
    assert set(broker.decided) == {(0, True)}
    assert inits(broker) == 1
    with producer.transaction():
        producer.send("t", b"b")
    assert inits(broker) == (1 if broker.level == 2 else 2)
    assert broker.decided[-1] == (1, True)


def test_a_commit_that_is_never_answered_is_in_doubt_and_asked_for_again(
    producer: Producer, broker: ScriptedCoordinator
) -> None:
    producer.begin_transaction()
    producer.send("t", b"a")
    producer.flush()
    broker.script(ApiKey.END_TXN, *[HangUp()] * 1000)
    with pytest.raises(CommitInDoubt):
        producer.commit_transaction(timeout=0.1)
    with pytest.raises(LocalProtocolError, match="commit_transaction"):
        producer.abort_transaction()
    with pytest.raises(LocalProtocolError, match="commit_transaction"):
        producer.send("t", b"b")
    broker.unscript(ApiKey.END_TXN)
    producer.commit_transaction()
    assert broker.decided == [(0, True)]


def test_the_coordinator_is_found_where_it_has_moved_to(
    producer: Producer, broker: ScriptedCoordinator
) -> None:
    found = broker.count(ApiKey.FIND_COORDINATOR)
    broker.script(ApiKey.END_TXN, refuse("NOT_COORDINATOR"), refuse("COORDINATOR_LOAD_IN_PROGRESS"))
    broker.script(ApiKey.FIND_COORDINATOR, refuse("COORDINATOR_NOT_AVAILABLE"))
    with producer.transaction():
        producer.send("t", b"a")
    assert broker.count(ApiKey.FIND_COORDINATOR) == found + 2
    assert broker.decided == [(0, True)]


def test_a_lost_sequence_makes_no_new_identity_but_an_abort(
    producer: Producer, broker: ScriptedCoordinator
) -> None:
    broker.script(ApiKey.PRODUCE, refuse("OUT_OF_ORDER_SEQUENCE_NUMBER"))
    producer.begin_transaction()
    producer.send("t", b"a")
    with pytest.raises(TransactionAbortableError, match="OUT_OF_ORDER"):
        producer.commit_transaction()
    assert inits(broker) == 1
    producer.abort_transaction()
    with producer.transaction():
        producer.send("t", b"b")
    assert broker.decided == [(0, False), (1, True)]


def test_offsets_are_sent_again_and_refused_ones_abort(
    producer: Producer, broker: ScriptedCoordinator
) -> None:
    broker.script(ApiKey.TXN_OFFSET_COMMIT, HangUp(), refuse("NOT_COORDINATOR"))
    with producer.transaction():
        producer.send_offsets_to_transaction({("t", 0): 5}, "group")
    assert broker.count(ApiKey.TXN_OFFSET_COMMIT) == 3
    broker.script(ApiKey.TXN_OFFSET_COMMIT, refuse("ILLEGAL_GENERATION"))
    with pytest.raises(TransactionAbortableError), producer.transaction():
        producer.send_offsets_to_transaction({("t", 0): 6}, "group")
    assert [outcome for _, outcome in broker.decided] == [True, False]


def test_a_fenced_producer_can_do_nothing_more(
    producer: Producer, broker: ScriptedCoordinator
) -> None:
    broker.script(ApiKey.END_TXN, refuse("PRODUCER_FENCED"))
    producer.begin_transaction()
    producer.send("t", b"a")
    with pytest.raises(TransactionFatalError):
        producer.commit_transaction()
    with pytest.raises(TransactionFatalError):
        producer.begin_transaction()
    with pytest.raises(TransactionFatalError):
        producer.send("t", b"b")


def test_nothing_is_sent_outside_a_transaction(
    producer: Producer, broker: ScriptedCoordinator
) -> None:
    for call in (lambda: producer.send("t", b"a"), lambda: producer.send_many("t", [b"a"])):
        with pytest.raises(LocalProtocolError, match="begin_transaction"):
            call()
    assert broker.count(ApiKey.PRODUCE) == 0


def test_a_transactional_id_needs_acks_all_and_idempotence() -> None:
    for acks, idempotent in ((1, True), ("all", False)):
        with pytest.raises(UserError, match="transactional_id"):
            Producer(
                bootstrap_servers="127.0.0.1:1",
                transactional_id="id",
                acks=acks,  # type: ignore[arg-type]
                enable_idempotence=idempotent,
            )
