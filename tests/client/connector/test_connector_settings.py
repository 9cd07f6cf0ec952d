"""A consumer's settings: what is refused, and what the error says to do."""

from __future__ import annotations

from typing import Any

import pytest
from group_settings import consumer_settings

from tallymark.client.connector.connector import ConsumerConnector
from tallymark.coordination.consumers.subscriptions import Subscription, topic_filter
from tallymark.errors import UserError

ZOOKEEPER = {"zookeeper_connect": "h:1/c", "bootstrap_servers": None}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"coordinator": "zookeper"}, "did you mean 'zookeeper'"),
        ({"coordinator": "zookeeper", "bootstrap_servers": "h:1"}, "needs ZooKeeper"),
        ({"bootstrap_servers": None}, "where the cluster is"),
        ({"auto_offset_reset": "latest"}, "did you mean 'largest'"),
        ({"auto_offset_reset": "begin"}, "'smallest' or 'largest' or 'none'"),
        ({"out_of_range": "smalest"}, "did you mean 'smallest'"),
        ({"delivery": "exactly_once"}, "'at_least_once' or 'at_most_once'|did you mean"),
        ({"delivery": "at_most_once", "enable_auto_commit": False}, "stores offsets by itself"),
        ({"isolation": "committed"}, "did you mean 'read_committed'"),
        ({"partition_assignment_strategy": "range,round-robin"}, "did you mean 'roundrobin'"),
        ({"auto_commit_interval_ms": 0}, "enable_auto_commit=False"),
        ({"session_timeout_ms": 0}, "1 or more"),
        ({"fetch_max_wait_ms": -1}, "0 or more"),
        ({"heartbeat_interval_ms": 9_000, "session_timeout_ms": 9_000}, "a third of it"),
        ({"max_poll_interval_ms": 5_000, "session_timeout_ms": 6_000}, "as long at least"),
        ({"consumer_id": "me"}, "group_instance_id"),
        ({"group_instance_id": ""}, "empty"),
        ({"group": "a/b"}, "a/b"),
        (ZOOKEEPER | {"group_instance_id": "me"}, 'coordinator="brokers"'),
        (ZOOKEEPER | {"max_poll_interval_ms": 9}, 'coordinator="brokers"'),
        (ZOOKEEPER | {"partition_assignment_strategy": "range"}, "is in ZooKeeper"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        consumer_settings(**wrong)


def test_who_coordinates_unless_it_is_said() -> None:
    assert consumer_settings().where == "brokers"
    assert consumer_settings(**ZOOKEEPER).where == "zookeeper"
    assert consumer_settings(zookeeper_connect="h:1", bootstrap_servers="h:2").where == "zookeeper"
    both = consumer_settings(zookeeper_connect="h:1", coordinator="brokers", bootstrap_servers=None)
    assert (both.where, both.servers) == ("brokers", "")


def test_defaults_depend_on_the_coordinator() -> None:
    brokers = consumer_settings()
    assert (brokers.session_ms, brokers.heartbeat_ms) == (45_000, 3_000)
    assert brokers.poll_interval_ms == 300_000
    assert brokers.strategies == ("range",)
    assert consumer_settings(**ZOOKEEPER).session_ms == 6_000
    assert consumer_settings(max_poll_interval_ms=9_000).session_ms == 9_000
    quick = consumer_settings(session_timeout_ms=1_500)
    assert quick.heartbeat_ms == 500
    assert consumer_settings(out_of_range="none").range_policy == "none"
    assert consumer_settings(auto_offset_reset="largest").range_policy == "largest"
    named = consumer_settings(bootstrap_servers=["a:1", "b:2"])
    assert named.servers == "a:1,b:2"


def test_a_setting_that_is_none_is_an_error_with_a_suggestion() -> None:
    make: Any = ConsumerConnector
    with pytest.raises(TypeError, match="did you mean enable_auto_commit"):
        make(group="g", bootstrap_servers="h:1", **{"enable.auto.comit": True})
    with pytest.raises(TypeError, match="did you mean auto_offset_reset"):
        make(group="g", bootstrap_servers="h:1", auto_offset_rest="smallest")


def test_a_filter_may_deny() -> None:
    wanted = Subscription({topic_filter("click.*|view", "click-(test|old).*"): 1}, is_filter=True)
    names = ("clicks", "view", "views", "click-test", "click-older", "click-new", "_clicks")
    assert [name for name in names if wanted.streams_of(name)] == ["clicks", "view", "click-new"]
    everything = Subscription({topic_filter(deny="a|b"): 1}, is_filter=True)
    assert [name for name in ("a", "b", "ab", "_c") if everything.streams_of(name)] == ["ab"]
    for patterns in (("(", None), ("a", "("), ("a", "(?i)b")):
        with pytest.raises(UserError, match=r"regular expression|do not go together"):
            topic_filter(*patterns)
