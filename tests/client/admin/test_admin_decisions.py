"""Admin's decisions: what is asked again, of whom, until when; and where a reset group goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.client import Admin
from tallymark.client.admin.reset import LogFacts, OffsetReset, OffsetTarget, decide, decide_all
from tallymark.client.admin.results import Outcomes, Results, refusal
from tallymark.client.admin.routes import settle
from tallymark.client.admin.topic_admin import NewTopic
from tallymark.client.core.bootstrap import Bootstrap
from tallymark.client.core.cluster import Cluster
from tallymark.errors import (
    CODES,
    AuthenticationError,
    ConnectError,
    KafkaError,
    TimedOutError,
    UserError,
)
from tallymark.protocol.api import ApiKey
from tallymark.testing.scripted_broker import HangUp, Refuse, ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 2}) as running:
        yield running


def settled(
    keys: list[str], attempt: Callable[[list[str]], Awaitable[Outcomes[str, int]]], timeout: float
) -> Outcomes[str, int]:
    async def run() -> Outcomes[str, int]:
        return await settle(Cluster(Bootstrap.of("127.0.0.1:1"), "test"), keys, attempt, timeout)

    return asyncio.run(run())


def test_only_what_may_pass_is_asked_again() -> None:
    asked: list[list[str]] = []

    async def attempt(pending: list[str]) -> Outcomes[str, int]:
        asked.append(pending)
        first = len(asked) == 1
        answers: dict[str, Any] = {
            "good": 1,
            "bad": KafkaError(CODES["INVALID_CONFIG"]),
            "moved": KafkaError(CODES["NOT_COORDINATOR"]) if first else 2,
            "loading": KafkaError(CODES["COORDINATOR_LOAD_IN_PROGRESS"]) if len(asked) < 3 else 3,
        }
        return {key: answers[key] for key in pending}

    found = settled(["loading", "good", "bad", "moved"], attempt, 5)
    assert asked == [["loading", "good", "bad", "moved"], ["loading", "moved"], ["loading"]]
    assert list(found) == ["loading", "good", "bad", "moved"]
    assert Results.of(found).done == {"loading": 3, "good": 1, "moved": 2}


def test_the_last_reason_is_told_when_the_time_is_over() -> None:
    async def attempt(pending: list[str]) -> Outcomes[str, int]:
        return dict.fromkeys(pending, KafkaError(CODES["NOT_CONTROLLER"], "topic x"))

    error = settled(["x"], attempt, 0.25)["x"]
    assert isinstance(error, TimedOutError)
    assert "not done within 0.25 s: topic x: NOT_CONTROLLER" in str(error)
    assert isinstance(error.__cause__, KafkaError)


def test_what_an_answer_leaves_out_is_an_error_not_a_success() -> None:
    async def attempt(pending: list[str]) -> Outcomes[str, int]:
        return {"other": 1}

    assert "answer lacks it" in str(settled(["x"], attempt, 1)["x"])


@pytest.mark.parametrize(
    "error",
    [ConnectError("h:1", "bootstrap", "refused"), AuthenticationError("h:1", "sasl", "no")],
)
def test_a_cluster_that_was_never_reached_is_not_waited_for(error: ConnectError) -> None:
    asked = 0

    async def attempt(pending: list[str]) -> Outcomes[str, int]:
        nonlocal asked
        asked += 1
        raise error

    assert settled(["x"], attempt, 30)["x"] is error
    assert asked == 1


def test_a_moved_controller_is_asked_again_topic_by_topic(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.CREATE_TOPICS, Refuse(CODES["NOT_CONTROLLER"]), HangUp())
    with Admin(bootstrap_servers=broker.address) as admin:
        made = admin.create_topics([NewTopic("a", 1), NewTopic("t", 1)])
    assert list(made) == ["a"]
    assert made.errors["t"].name == "TOPIC_ALREADY_EXISTS"  # type: ignore[attr-defined] # a KafkaError
    assert broker.count(ApiKey.CREATE_TOPICS) == 3


def test_a_moved_leader_is_looked_for(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.LIST_OFFSETS, Refuse(CODES["NOT_LEADER_OR_FOLLOWER"]), HangUp(), Refuse(3))
    with Admin(bootstrap_servers=broker.address) as admin:
        assert admin.list_offsets({("t", 0): -1, ("t", 1): -1})["t", 1].offset == 0
    assert broker.count(ApiKey.METADATA) >= 3


def test_a_cluster_that_is_away_is_one_error(broker: ScriptedBroker) -> None:
    broker.stop()
    with Admin(bootstrap_servers=broker.address) as admin:
        with pytest.raises(ConnectError, match="bootstrap"):
            admin.delete_topics(["a", "b"])
        with pytest.raises(ConnectError, match="bootstrap"):
            admin.group_offsets("g")


def test_what_a_broker_does_not_serve_is_said(broker: ScriptedBroker) -> None:
    with Admin(bootstrap_servers=broker.address) as admin:
        broker.served.pop(ApiKey.DESCRIBE_PRODUCERS, None)
        error = admin.describe_producers([("t", 0)]).errors["t", 0]
    assert "UNSUPPORTED_VERSION" in str(error)


def test_the_cluster_is_told_by_brokers_that_know_no_describe_cluster(
    broker: ScriptedBroker,
) -> None:
    broker.served.pop(ApiKey.DESCRIBE_CLUSTER)
    with Admin(bootstrap_servers=broker.address) as admin:
        described = admin.describe_cluster()
    assert (described.cluster_id, described.controller) == ("scripted", 0)
    assert [one.address for one in described.brokers] == [broker.address]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (None, "topic t: INVALID_CONFIG: the configuration is not valid"),
        ("no such name", "topic t: no such name: INVALID_CONFIG: the configuration is not valid"),
        # Our brokers answer with the whole sentence; it was told twice.
        (
            "'t': INVALID_CONFIG: the configuration is not valid",
            "topic t: INVALID_CONFIG: the configuration is not valid",
        ),
        # The quote at the end was taken away with the rest.
        (
            "unknown config 'x': INVALID_CONFIG: the configuration is not valid",
            "topic t: unknown config 'x': INVALID_CONFIG: the configuration is not valid",
        ),
    ],
)
def test_a_broker_s_words_are_told_once(message: str | None, said: str) -> None:
    assert str(refusal(CODES["INVALID_CONFIG"], "topic t", message)) == said


# --- resets -------------------------------------------------------------------------------------

FACTS = LogFacts(start=10, end=20, at_time=15, current=12)


@pytest.mark.parametrize(
    ("target", "after", "moved"),
    [
        (OffsetTarget("earliest"), 10, False),
        (OffsetTarget("latest"), 20, False),
        (OffsetTarget("time", 99), 15, False),
        (OffsetTarget("offset", 13), 13, False),
        (OffsetTarget("offset", 3), 10, True),
        (OffsetTarget("shift", 4), 16, False),
        (OffsetTarget("shift", -4), 10, True),
        (OffsetTarget("current"), 12, False),
    ],
)
def test_where_a_group_goes_on(target: OffsetTarget, after: int, moved: bool) -> None:
    assert decide(target, FACTS) == OffsetReset(12, after, moved)


def test_a_time_after_the_last_record_is_the_end() -> None:
    assert decide(OffsetTarget("time", 1), LogFacts(0, 7)).after == 7


def test_partitions_are_decided_each_by_itself() -> None:
    facts = {("t", 0): FACTS, ("t", 1): LogFacts(0, 5)}
    decided = decide_all(OffsetTarget("shift", 1), facts)
    assert decided["t", 0] == OffsetReset(12, 13)
    assert isinstance(decided["t", 1], UserError)
    assert decide_all({("t", 0): 11, ("t", 1): 2}, facts)["t", 1] == OffsetReset(None, 2)


@settings(max_examples=50)
@given(
    st.sampled_from(["earliest", "latest", "time", "offset", "shift"]),
    st.integers(-100, 100),
    st.integers(0, 50),
    st.integers(0, 50),
    st.integers(0, 120),
)
def test_nobody_is_sent_outside_of_the_log(
    kind: Any, value: int, start: int, length: int, current: int
) -> None:
    facts = LogFacts(start, start + length, None, current)
    reset = decide(OffsetTarget(kind, value), facts)
    assert start <= reset.after <= start + length
    assert reset.records == reset.after - current
