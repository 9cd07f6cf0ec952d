"""What the clients are tested against: our broker and, in the same tests, Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_kinds import KINDS, AnyBroker, either_broker, new_topic


@pytest.fixture(params=KINDS)
def any_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyBroker]:
    """A broker of ours for this test alone, then the Apache Kafka of all tests."""
    yield from either_broker(request, tmp_path)


@pytest.fixture
def topic() -> str:
    """A topic's name that nobody else has."""
    return new_topic()
