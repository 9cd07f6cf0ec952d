"""What a caller gives wrongly is told to the caller, and harms nobody else's records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tallymark.client import Producer
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
    ],
)
def test_one_wrong_record_does_not_take_its_neighbours_along(
    broker: ScriptedBroker, given: dict[str, Any], reason: str
) -> None:
    """``timestamp=time.time() * 1000`` or a header with a str was taken in; the batch could not be
    encoded then, and all records that shared it failed with an error that named none of them."""
    with Producer(bootstrap_servers=broker.address, interceptors=[], linger_ms=200) as producer:
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
    with Producer(bootstrap_servers=broker.address, interceptors=[]) as producer:
        with pytest.raises(TypeError, match="a topic is named by a str"):
            producer.send(topic, b"x")
        with pytest.raises(TypeError, match="a topic is named by a str"):
            producer.send_many(topic, [b"x"])
        assert producer.send("t", b"x").result(30).offset == 0
