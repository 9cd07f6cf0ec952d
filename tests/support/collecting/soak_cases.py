"""Cases of a test that only the soak runs: its siblings in the ordinary run show as much, mostly.

::

    @pytest.mark.soak_cases("gzip", "lz4")       cases that have one of these in their id, between
                                                 the brackets and hyphens of pytest
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def mark_soak_cases(items: Iterable[pytest.Item]) -> None:
    """Mark the cases that are named with ``soak``."""
    for item in items:
        named = {word for mark in item.iter_markers("soak_cases") for word in mark.args}
        if named and not named.isdisjoint(_words(item.name)):
            item.add_marker(pytest.mark.soak)


def _words(name: str) -> set[str]:
    """``test_it[ours-a slow store]``: "ours", "a slow store", and both."""
    case = name.partition("[")[2].removesuffix("]")
    return {case, *case.split("-")}
