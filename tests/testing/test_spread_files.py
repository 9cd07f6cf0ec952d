"""Files of Spark tests are spread among the others, not left for the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from spread_files import spread_among


def test_heavy_files_stand_at_even_distances_in_the_first_three_quarters() -> None:
    """At the end of a run one worker had four minutes of Spark left, the others nothing."""
    found = spread_among([*range(80), *range(1000, 1006)], lambda one: one >= 1000)
    assert [at for at, one in enumerate(found) if one >= 1000] == [0, 11, 22, 33, 44, 55]


@given(st.lists(st.integers(0, 20)), st.integers(0, 20))
def test_every_file_stays_and_both_kinds_keep_their_order(files: list[int], least: int) -> None:
    found = spread_among(files, lambda one: one >= least)
    assert [one for one in found if one >= least] == [one for one in files if one >= least]
    assert [one for one in found if one < least] == [one for one in files if one < least]
