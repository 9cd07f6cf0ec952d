"""All strips of a page have one clock."""

from hypothesis import given
from hypothesis import strategies as st

from tallymark_dashboards.view.clock import DAY, HOUR, MINUTE, MOST_CELLS, clock_of

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z
TIMES = st.integers(0, 4_000_000_000_000)
WINDOWS = st.sampled_from([1_000, 5_000, 7_000, 60_000, 90_000, HOUR])


def test_the_ranges_of_the_pages_have_cells_that_people_read() -> None:
    for length, step in (
        (15 * MINUTE, MINUTE),
        (6 * HOUR, 15 * MINUTE),
        (DAY, HOUR),
        (7 * DAY, 12 * HOUR),
    ):
        clock = clock_of(NOON - length, NOON, MINUTE)
        assert (clock.start, clock.end, clock.step) == (NOON - length, NOON, step)


@given(TIMES, st.integers(1, 400 * DAY), WINDOWS)
def test_every_cell_holds_whole_windows_and_all_of_the_range_is_shown(
    start: int, length: int, window_ms: int
) -> None:
    clock = clock_of(start, start + length, window_ms)
    assert clock.step % window_ms == 0
    assert clock.start <= start
    assert clock.end >= start + length
    assert clock.start % clock.step == clock.end % clock.step == 0
    assert 1 <= len(clock) <= MOST_CELLS + 1
    assert list(clock)[-1] + clock.step == clock.end


def test_an_absurd_range_has_few_cells_too() -> None:
    assert 1 <= len(clock_of(0, 250_000_000_000_000, 1_000)) <= MOST_CELLS + 1
