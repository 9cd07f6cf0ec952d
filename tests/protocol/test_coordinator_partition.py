"""Which partition of a state topic owns a group or a transactional id."""

from __future__ import annotations

import pytest

from tallymark.protocol.coordinator_partition import coordinator_partition, java_hash


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("Aa", 2112),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("Ä😀", 1961255),
    ],
)
def test_java_hash(text: str, value: int) -> None:
    """Values of Java's String.hashCode; the last has an umlaut and a surrogate pair."""
    assert java_hash(text) == value


def test_the_partition_is_kafkas() -> None:
    assert coordinator_partition("hello", 50) == 99162322 % 50
    assert all(0 <= coordinator_partition(f"group-{n}", 7) < 7 for n in range(100))
