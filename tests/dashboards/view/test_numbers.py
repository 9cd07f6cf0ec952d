"""Numbers on pages: never rounded up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_dashboards.view.numbers import number, share, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.00 kB"),
        (1_239, "1.23 kB"),
        (12_345, "12.3 kB"),
        (999_999, "999 kB"),
        (1_000_000, "1.00 MB"),
        (10**21, "1000 EB"),
    ],
)
def test_sizes_have_three_digits_and_are_cut(count: int, text: str) -> None:
    assert size(count) == text


def test_thousands_are_separated() -> None:
    assert number(50_380) == "50,380"
    assert number(None) == "–"


@given(st.integers(0, 10**15), st.integers(1, 10**15))
def test_a_share_is_100_only_when_nothing_is_missing(missing: int, whole: int) -> None:
    said = share(whole - missing, whole)
    assert (said == "100.00 %") == (missing == 0)


def test_a_share_of_nothing_is_none() -> None:
    assert share(0, 0) == "–"
