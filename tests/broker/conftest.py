"""What tests of a broker share; each file says in its fixture ``broker`` which one it wants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


@pytest.fixture
def wire(broker: BrokerThread) -> Iterator[WireClient]:
    """A connection of the test's own."""
    with WireClient(broker.bootstrap_servers) as client:
        yield client
