"""What the clients are tested against: our broker and, in the same tests, Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_kinds import KINDS, OURS, AnyBroker, new_topic

from tallymark.testing.broker_thread import BrokerThread


@pytest.fixture(params=KINDS)
def any_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyBroker]:
    """A broker of ours for this test alone, then the Apache Kafka of all tests."""
    if request.param == OURS:
        with BrokerThread(tmp_path) as running:
            yield running
    else:
        yield request.getfixturevalue("apache_kafka")


@pytest.fixture
def topic() -> str:
    """A topic's name that nobody else has."""
    return new_topic()
