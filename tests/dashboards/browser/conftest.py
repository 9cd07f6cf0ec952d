"""A site for the tests of each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prepared_store import Prepared
from screenshots import served


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[str, Prepared]]:
    """The address of the dashboards of a prepared store with hostile names, and what is in it."""
    with served(hostile=True) as found:
        yield found
