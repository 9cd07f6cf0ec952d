"""Which timestamps are implausible."""

import pytest

from tallymark_audit.reporters.books.skew import SkewRule

NOW = 1_700_000_000_000
LIMIT = 86_400_000
RULE = SkewRule(LIMIT)


@pytest.mark.parametrize(
    ("timestamp", "skewed"),
    [
        (NOW, 0),
        (NOW - LIMIT, 0),
        (NOW - LIMIT - 1, 1),
        (NOW + LIMIT, 0),
        (NOW + LIMIT + 1, 1),
        (0, 1),
        (-1, 1),
        (-(2**63), 1),
        (2**63 - 1, 1),
    ],
)
def test_at_the_edges(timestamp: int, skewed: int) -> None:
    assert RULE.count([timestamp], NOW) == skewed
    assert RULE.plausible(timestamp, timestamp, NOW) is not bool(skewed)
    assert SkewRule(LIMIT, exempt=True).count([timestamp], NOW) == 0
    assert SkewRule(LIMIT, exempt=True).plausible(timestamp, timestamp, NOW)


def test_counts_only_those_that_are() -> None:
    times = [NOW, 0, NOW + 1, 2**63 - 1, NOW - LIMIT, NOW - LIMIT - 1]
    assert RULE.count(times, NOW) == 3
    assert not RULE.plausible(min(times), max(times), NOW)
    assert RULE.count([], NOW) == 0


def test_a_clock_at_the_epoch_finds_the_epoch_plausible() -> None:
    """A host without a clock stamps zeros for a while: its own clock agrees with them."""
    assert RULE.count([0, 5], 7) == 0
