"""Cases of a test that are left to the soak."""

from __future__ import annotations

from typing import Any, cast

import pytest
from soak_cases import mark_soak_cases


class Item:
    """A collected test; its marks are the names of cases."""

    def __init__(self, name: str, *cases: str) -> None:
        self.name = name
        self._cases = cases
        self.added: list[str] = []

    def iter_markers(self, name: str) -> list[Any]:
        assert name == "soak_cases"
        return [pytest.mark.soak_cases(*self._cases).mark] if self._cases else []

    def add_marker(self, mark: Any) -> None:
        self.added.append(mark.name)


@pytest.mark.parametrize(
    ("name", "is_soak"),
    [
        ("test_it[ours-gzip]", True),
        ("test_it[a slow store]", True),
        ("test_it[ours-none]", False),
        ("test_it[gzipped]", False),
        ("test_gzip", False),
    ],
)
def test_cases_that_are_named_are_marked(name: str, is_soak: bool) -> None:
    named, other = Item(name, "gzip", "a slow store"), Item(name)
    mark_soak_cases(cast("list[pytest.Item]", [named, other]))
    assert named.added == (["soak"] if is_soak else [])
    assert other.added == []
