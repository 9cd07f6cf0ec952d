"""What tallymark.testing gives to other people's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tallymark.testing
from tallymark import Producer
from tallymark.testing import MemoryBroker, read_topic

pytest_plugins = ["pytester"]


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker(num_partitions=2) as running:
        yield running


def test_a_broker_in_memory_serves_and_keeps_its_data_over_a_restart(broker: MemoryBroker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for number in range(100):
            producer.send("t", b"%d" % number, partition=number % 2, headers=[("h", None)])
    broker.stop()
    broker.start()
    messages = read_topic(broker.bootstrap_servers, "t")
    assert [(m.partition, m.offset) for m in messages] == [
        (partition, offset) for partition in (0, 1) for offset in range(50)
    ]
    assert [m.value for m in messages[:50]] == [b"%d" % number for number in range(0, 100, 2)]
    assert messages[0].headers[0] == ("h", None)
    assert read_topic(broker.bootstrap_servers, "nowhere") == []


def test_what_is_told_of_is_there() -> None:
    for name in tallymark.testing.__all__:
        assert getattr(tallymark.testing, name).__doc__
    with pytest.raises(AttributeError, match="has no attribute 'Broker'"):
        tallymark.testing.Broker  # noqa: B018


@pytest.mark.slow
def test_the_fixtures_work_in_a_suite_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["tallymark.testing.fixtures"]')
    pytester.makepyfile(
        """
        from tallymark import Producer
        from tallymark.testing import read_topic

        def test_it(tallymark_broker):
            servers = tallymark_broker.bootstrap_servers
            with Producer(bootstrap_servers=servers, audit=False) as producer:
                producer.send("t", b"x")
            assert [message.value for message in read_topic(servers, "t")] == [b"x"]
        """
    )
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=1)
