"""Quotas: the buckets by themselves, and a broker that keeps clients to them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_kinds import KINDS, OURS
from eventually import eventually
from hypothesis import given
from hypothesis import strategies as st

from tallymark.broker.security.quotas import LONGEST_SECONDS, Quotas, TokenBucket, rates_of
from tallymark.broker.security.quotas_filter import check_filter, entity, matches, value
from tallymark.errors import KafkaError
from tallymark.protocol import messages as m
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

STEPS = st.lists(st.tuples(st.floats(0, 5), st.integers(0, 5000)), min_size=1, max_size=40)


@given(st.floats(1, 10_000), STEPS)
def test_who_waits_as_told_stays_within_the_rate(
    rate: float, steps: list[tuple[float, int]]
) -> None:
    """Over any time no more passes than the rate, one second's burst and the last request; unless
    a wait was cut short because it was too long."""
    bucket, now, passed, largest = TokenBucket(rate, 0.0), 0.0, 0, 0
    for pause, amount in steps:
        now += pause
        wait = bucket.take(amount, now)
        passed, largest = passed + amount, max(largest, amount)
        assert 0 <= wait <= LONGEST_SECONDS + 1e-6
        if wait > LONGEST_SECONDS - 1e-6:
            return
        now += wait
        assert passed <= rate * (now + 1) * (1 + 1e-9) + 1e-6
    assert passed - largest <= rate * (now + 1) * (1 + 1e-9)


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(100, 10.0)
    assert bucket.take(100, 10.0) == 0
    assert bucket.take(100, 5.0) == 1.0


def waits(quotas: Quotas, user: str, client: str) -> float:
    return quotas.take(user, client, "producer_byte_rate", 1000, 0.0)


def test_which_quota_counts() -> None:
    own, every = {"producer_byte_rate": "100"}, {"producer_byte_rate": "500"}
    quotas = Quotas({"ann": own, "<default>": every}, {"app": {"producer_byte_rate": "200"}})
    assert waits(quotas, "ann", "app") == 9.0
    assert waits(quotas, "bob", "app") == 1.0
    assert waits(quotas, "eve", "app") == 1.0, "everybody has a bucket of its own"
    assert waits(Quotas({"ann": own}, {"app": every}), "bob", "app") == 1.0
    assert waits(Quotas({"ann": own}, {"<default>": every}), "bob", "x") == 1.0
    assert waits(Quotas({"ann": own}), "bob", "app") == 0.0
    assert quotas.take("ann", "app", "consumer_byte_rate", 10**9, 0.0) == 0.0
    assert not Quotas({"ann": {"SCRAM-SHA-256": "..."}}).active


def test_a_change_elsewhere_forgives_nobody() -> None:
    ann = {"ann": {"producer_byte_rate": "100"}}
    before = Quotas(ann)
    assert waits(before, "ann", "") == 9.0
    after = Quotas({**ann, "bob": {"producer_byte_rate": "5"}}).taking_over(before)
    assert waits(after, "ann", "") == 19.0
    changed = Quotas({"ann": {"producer_byte_rate": "1000"}}).taking_over(after)
    assert waits(changed, "ann", "") == 0.0


@given(st.dictionaries(st.sampled_from(["producer_byte_rate", "x"]), st.text()))
def test_what_is_no_rate_is_none(values: dict[str, str]) -> None:
    assert all(rate >= 1 for rate in rates_of(values).values())


def test_entities_and_values() -> None:
    assert entity([("user", "ann")]) == ("ann", None)
    assert entity([("client-id", None)]) == (None, "<default>")
    assert entity([("client-id", "app"), ("user", None)]) == ("<default>", "app")
    for wrong in ([], [("ip", "::1")], [("user", "a"), ("user", "b")], [("user", "")]):
        with pytest.raises(KafkaError, match="INVALID_REQUEST"):
            entity(wrong)
    assert value("producer_byte_rate", 1024, False) == "1024.0"
    assert value("producer_byte_rate", 0, True) is None
    for key, rate in (("request_percentage", 5.0), ("producer_byte_rate", float("nan"))):
        with pytest.raises(KafkaError, match="INVALID_REQUEST"):
            value(key, rate, False)


def test_filters() -> None:
    ann, both = ("ann", None), ("ann", "app")
    assert matches(ann, [], False)
    assert not matches(ann, [], True)
    assert matches(ann, [("user", 2, None)], True)
    assert matches(ann, [("user", 0, "ann")], False)
    assert not matches(ann, [("user", 1, None)], False)
    assert matches(("<default>", None), [("user", 1, None)], False)
    assert not matches(ann, [("user", 2, None), ("client-id", 2, None)], False)
    assert matches(both, [("user", 2, None), ("client-id", 2, None)], True)
    assert matches(both, [("client-id", 0, "app")], False)
    assert not matches(both, [("client-id", 0, "app")], True)
    assert not matches(both, [("ip", 2, None)], False)
    for wrong in (
        [("user", 0, None)],
        [("user", 9, None)],
        [("group", 2, None)],
        [("ip", 2, None), ("user", 2, None)],
    ):
        with pytest.raises(KafkaError, match="INVALID_REQUEST"):
            check_filter(wrong)


def test_a_user_with_a_client_id_comes_first() -> None:
    """Kafka's order (KIP-55). A quota for one application of a user was INVALID_REQUEST."""
    levels: list[tuple[str | None, str | None]] = [
        *(("ann", "app"), ("ann", "<default>"), ("ann", None)),
        *(("<default>", "app"), ("<default>", "<default>"), ("<default>", None)),
        *((None, "app"), (None, "<default>")),
    ]
    for first in range(len(levels)):
        told = [({"producer_byte_rate": str(100 + n)}, place) for n, place in enumerate(levels)]
        kept = told[first:]
        quotas = Quotas(
            {u: v for v, (u, c) in kept if u is not None and c is None},
            {c: v for v, (u, c) in kept if u is None and c is not None},
            {(u, c): v for v, (u, c) in kept if u is not None and c is not None},
        )
        rate = 100 + first
        assert waits(quotas, "ann", "app") == pytest.approx((1000 - rate) / rate)


def test_each_client_of_a_user_has_its_own_bucket() -> None:
    quotas = Quotas(None, None, {("ann", "<default>"): {"producer_byte_rate": "100"}})
    assert waits(quotas, "ann", "app") == 9.0
    assert waits(quotas, "ann", "job") == 9.0
    assert waits(quotas, "bob", "app") == 0.0
    later = Quotas(
        {"bob": {"producer_byte_rate": "5"}},
        None,
        {("ann", "<default>"): {"producer_byte_rate": "100"}},
    ).taking_over(quotas)
    assert waits(later, "ann", "app") == 19.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path) as running:
        yield running


def alter(
    client: WireClient, kind: str, name: str | None, key: str, rate: float, remove: bool = False
) -> int:
    entry = m.AlterClientQuotasRequestEntry(
        entity=[m.AlterClientQuotasRequestEntity(entity_type=kind, entity_name=name)],
        ops=[m.AlterClientQuotasRequestOp(key=key, value=rate, remove=remove)],
    )
    return client.ask(m.AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code


def produce(client: WireClient, version: int, partition: int = 0) -> m.ProduceResponse:
    batch = encode_batch([(None, bytes(1000), (), 1)])
    part = m.ProduceRequestPartition(index=partition, records=batch)
    topic = m.ProduceRequestTopic(name="t", partition_data=[part])
    request = m.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    return client.ask(request, version)


def create(client: WireClient) -> None:
    topic = m.CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)
    client.ask(m.CreateTopicsRequest(topics=[topic]), 5)


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_a_producer_is_told_and_held_back(broker: BrokerThread, version: int) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        create(client)
        # More than 1 KB each at 1 KB a second, of which the first second's are free.
        assert alter(client, "client-id", "wire", "producer_byte_rate", 1_000) == 0
        for _ in range(20):
            began = time.monotonic()
            answer = produce(client, version)
            assert answer.responses[0].partition_responses[0].error_code == 0
            if answer.throttle_time_ms:
                break
        assert answer.throttle_time_ms > 0
        client.ask(m.ApiVersionsRequest(), 0)
        assert time.monotonic() - began > answer.throttle_time_ms / 1000 - 0.1
        assert alter(client, "client-id", "wire", "producer_byte_rate", 0, remove=True) == 0
        assert produce(client, version).throttle_time_ms == 0


@pytest.mark.parametrize("version", [2, 3, 9, 10, 11])
def test_a_producer_whose_records_are_refused_is_told_and_held_back(
    broker: BrokerThread, version: int
) -> None:
    """From v10 on a refused Produce said that nobody was held back, while its connection was: the
    time was written over the last bytes of a finished answer, which are others there."""
    with WireClient(broker.bootstrap_servers) as client:
        create(client)
        assert alter(client, "client-id", "wire", "producer_byte_rate", 1_000) == 0
        answers = [produce(client, version, partition=7) for _ in range(3)]
        assert all(each.responses[0].partition_responses[0].error_code for each in answers)
        assert answers[-1].throttle_time_ms > 0


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_consumer_is_told_and_held_back(broker: BrokerThread, version: int) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        create(client)
        for _ in range(4):
            produce(client, 9)
        assert alter(client, "user", None, "consumer_byte_rate", 3000) == 0
        ask = m.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=100_000,
            session_epoch=-1,
            topics=[
                m.FetchRequestTopic(
                    topic="t",
                    partitions=[
                        m.FetchRequestPartition(
                            partition=0, fetch_offset=0, partition_max_bytes=100_000
                        )
                    ],
                )
            ],
        )
        began = time.monotonic()
        answer = client.ask(ask, version)
        assert answer.throttle_time_ms > 0
        assert len(answer.responses[0].partitions[0].records or b"") > 4000
        client.ask(m.ApiVersionsRequest(), 0)
        assert time.monotonic() - began > answer.throttle_time_ms / 1000 - 0.1


def test_quotas_are_described(broker: BrokerThread) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        for kind, name in (("user", "ann"), ("user", None), ("client-id", "app")):
            assert alter(client, kind, name, "producer_byte_rate", 5000) == 0
        assert alter(client, "ip", "::1", "connection_creation_rate", 5) == 42
        every = client.ask(m.DescribeClientQuotasRequest(), 1)
        assert every.entries is not None
        found = [(e.entity[0].entity_type, e.entity[0].entity_name) for e in every.entries]
        assert found == [("user", None), ("user", "ann"), ("client-id", "app")]
        assert every.entries[0].values[0].value == 5000
        component = m.DescribeClientQuotasRequestComponent(entity_type="user", match_type=1)
        one = client.ask(m.DescribeClientQuotasRequest(components=[component]), 0)
        assert one.entries is not None
        assert [entry.entity[0].entity_name for entry in one.entries] == [None]
        bad = m.DescribeClientQuotasRequestComponent(entity_type="colour", match_type=1)
        assert client.ask(m.DescribeClientQuotasRequest(components=[bad]), 1).error_code == 42


def alter_both(client: WireClient, user: str | None, app: str | None, rate: float) -> int:
    entry = m.AlterClientQuotasRequestEntry(
        entity=[
            m.AlterClientQuotasRequestEntity(entity_type="user", entity_name=user),
            m.AlterClientQuotasRequestEntity(entity_type="client-id", entity_name=app),
        ],
        ops=[m.AlterClientQuotasRequestOp("producer_byte_rate", rate, rate == 0)],
    )
    return client.ask(m.AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code


def described(client: WireClient, *wanted: tuple[str, int, str | None], strict: bool) -> set[Any]:
    components = [m.DescribeClientQuotasRequestComponent(*each) for each in wanted]
    answer = client.ask(m.DescribeClientQuotasRequest(components, strict), 1)
    return {
        (
            frozenset((part.entity_type, part.entity_name) for part in entry.entity),
            *((each.key, each.value) for each in entry.values),
        )
        for entry in answer.entries or ()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_quotas_of_users_with_clients_are_kept_and_told(
    kind: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ours = kind == OURS
    running: Any = BrokerThread(tmp_path).start() if ours else request.getfixturevalue(kind)
    ann = frozenset({("user", "ann")})
    of_app, of_all = ann | {("client-id", "app")}, ann | {("client-id", None)}
    app, every, plain = (
        (entity, ("producer_byte_rate", rate))
        for entity, rate in ((of_app, 1024), (of_all, 2048), (ann, 4096))
    )
    try:
        with WireClient(running.bootstrap_servers) as client:
            assert alter_both(client, "ann", "app", 1024) == 0
            assert alter_both(client, "ann", None, 2048) == 0
            assert alter(client, "user", "ann", "producer_byte_rate", 4096) == 0
            user, any_client = ("user", 0, "ann"), ("client-id", 2, None)
            eventually(lambda: described(client, user, strict=False) == {app, every, plain})
            assert described(client, user, strict=True) == {plain}
            assert described(client, user, any_client, strict=True) == {app, every}
            assert described(client, ("client-id", 0, "app"), strict=False) == {app}
        if ours:
            running.stop()
            running.start()
        with WireClient(running.bootstrap_servers) as client:
            assert described(client, user, strict=False) == {app, every, plain}
            assert alter_both(client, "ann", "app", 0) == 0
            eventually(lambda: described(client, user, strict=False) == {every, plain})
            assert alter_both(client, "ann", None, 0) == 0
            assert alter(client, "user", "ann", "producer_byte_rate", 0, remove=True) == 0
    finally:
        if ours:
            running.stop()
