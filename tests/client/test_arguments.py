"""What a caller gives wrongly is told to the caller, and harms nobody else's records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tallymark.client import ConsumerConnector, Producer, SimpleConsumer
from tallymark.errors import UserError
from tallymark.testing import ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}) as running:
        yield running


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"timestamp": 1.5}, "a timestamp is an int, milliseconds since the epoch, not float"),
        ({"headers": [("a", "text")]}, r"headers are pairs .* not \('a', 'text'\)"),
        ({"headers": [(b"a", b"b")]}, "headers are pairs of a name"),
        ({"headers": {"a": b"b"}}, "headers are pairs .* not 'a'"),
        ({"headers": ["ab"]}, "headers are pairs .* not 'ab'"),
        ({"partition": "0"}, "a partition is an int, not str"),
        ({"on_delivery": 5}, "on_delivery is a function of .* not 5"),
    ],
)
def test_one_wrong_record_does_not_take_its_neighbours_along(
    broker: ScriptedBroker, given: dict[str, Any], reason: str
) -> None:
    """``timestamp=time.time() * 1000`` or a header with a str was taken in; the batch could not be
    encoded then, and all records that shared it failed with an error that named none of them."""
    with Producer(bootstrap_servers=broker.address, audit=False, linger_ms=200) as producer:
        before = producer.send("t", b"before", key=b"k")
        with pytest.raises(TypeError, match=reason):
            producer.send("t", b"wrong", **given)
        after = producer.send("t", b"after", key=b"k")
        assert [before.result(30).offset, after.result(30).offset] == [0, 1]
        with pytest.raises(ValueError, match="timestamp -5 is not milliseconds"):
            producer.send("t", b"wrong", timestamp=-5)
    assert broker.values("t") == [b"before", b"after"]


@pytest.mark.parametrize("topic", [None, 5, b"t"])
def test_a_topic_that_is_no_name_does_not_end_the_producer(
    broker: ScriptedBroker, topic: Any
) -> None:
    """``send(None, ...)``, of a setting that was not set, waited for 60 s, and the look for
    metadata died of it: from then on every call of the same producer failed."""
    with Producer(bootstrap_servers=broker.address, audit=False) as producer:
        with pytest.raises(TypeError, match="a topic is named by a str"):
            producer.send(topic, b"x")
        with pytest.raises(TypeError, match="a topic is named by a str"):
            producer.send_many(topic, [b"x"])
        assert producer.send("t", b"x").result(30).offset == 0


@pytest.mark.parametrize(
    ("make", "given", "said"),
    [
        (Producer, {"batch_size": "16384"}, "Producer: batch_size='16384' .* a whole number"),
        (Producer, {"batch_size": 1.5}, "batch_size=1.5 .* a whole number"),
        (Producer, {"linger_ms": None}, "linger_ms=None .* a number"),
        (Producer, {"stamp": "no"}, "stamp='no' .* True or False"),
        (Producer, {"max_in_flight": True}, "max_in_flight=True .* a whole number"),
        (Producer, {"compression_level": "9"}, "compression_level='9' .* number, or None"),
        (Producer, {"value_encoder": 3}, "value_encoder=3 .* a function"),
        (Producer, {"partitioner": "murmur2"}, "partitioner='murmur2' .* a function"),
        (ConsumerConnector, {"fetch_max_bytes": "1"}, "fetch_max_bytes='1' .* a whole number"),
        (ConsumerConnector, {"session_timeout_ms": "6000"}, "session_timeout_ms='6000'"),
        (ConsumerConnector, {"enable_auto_commit": 0}, "enable_auto_commit=0 .* True or False"),
        (ConsumerConnector, {"on_gap": "log"}, "on_gap='log' .* a function"),
    ],
)
def test_a_setting_of_the_wrong_kind_is_named(make: Any, given: dict[str, Any], said: str) -> None:
    """It was a TypeError about '<' between a str and an int, or came later from another thread."""
    more = {"group": "g"} if make is ConsumerConnector else {}
    with pytest.raises(UserError, match=said):
        make(bootstrap_servers="127.0.0.1:1", **more, **given)


def test_whole_and_broken_numbers_of_milliseconds_are_both_times() -> None:
    ConsumerConnector(
        bootstrap_servers="127.0.0.1:1",
        group="g",
        request_timeout_ms=500.0,  # type: ignore[arg-type]
    ).close()
    Producer(bootstrap_servers="127.0.0.1:1", linger_ms=2, max_block_ms=0.5).close()


@pytest.mark.parametrize("place", [("t", 0, None), ("t", "0", 0), (None, 0, 0), ("t", 0, 1.0)])
def test_a_place_of_the_wrong_kind_is_told_as_such(broker: ScriptedBroker, place: Any) -> None:
    """``fetch("t", 0, None)`` was an error about encoding, ``fetch("t", "0", 0)`` one about an
    unknown partition."""
    with (
        SimpleConsumer(bootstrap_servers=broker.address) as consumer,
        pytest.raises(TypeError, match="partition and offset are ints, not"),
    ):
        consumer.fetch(*place)
