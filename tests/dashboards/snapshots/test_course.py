"""Courses in bounded memory, and delays from the course of a log's end."""

from hypothesis import given
from hypothesis import strategies as st

from tallymark_dashboards.snapshots.course import Course, delay, follow
from tallymark_dashboards.snapshots.shapes import Delay

S = 1000


def course(*samples: tuple[int, int], most: int = 120) -> Course:
    made = Course(most=most)
    for at, end in samples:
        follow(made, at, end)
    return made


def test_the_delay_is_the_age_of_the_first_record_that_is_not_read() -> None:
    ends = course((0, 100), (10 * S, 200), (20 * S, 200), (30 * S, 300))
    assert delay(ends, 300, 35 * S) == Delay(0)
    # Record 199 came with the last ones before 10 s, record 200 after 20 s: nothing came between.
    assert delay(ends, 199, 35 * S) == Delay(25 * S)
    assert delay(ends, 200, 35 * S) == Delay(15 * S - 100)
    assert delay(ends, 149, 35 * S) == Delay(30 * S)


def test_a_record_that_was_there_before_the_first_look_is_at_least_that_old() -> None:
    ends = course((50 * S, 100), (60 * S, 120))
    assert delay(ends, 10, 90 * S) == Delay(40 * S, least=True)


def test_without_a_look_nothing_is_known() -> None:
    assert delay(Course(), 10, 90 * S) is None


def test_another_log_of_that_name_has_another_course() -> None:
    """After a topic was deleted and created again, its end was before the old one; the delay came
    from the old log's course."""
    ends = course((0, 1000), (10 * S, 2000), (20 * S, 5), (30 * S, 10))
    assert list(ends) == [(20 * S, 5), (30 * S, 10)]


def test_an_idle_log_takes_two_samples() -> None:
    ends = course(*((at * S, 7) for at in range(1000)))
    assert list(ends) == [(0, 7), (999 * S, 7)]


def test_a_clock_that_was_set_back_does_not_break_the_order() -> None:
    ends = course((10 * S, 5), (5 * S, 9), (20 * S, 12))
    assert list(ends) == [(10 * S, 9), (20 * S, 12)]


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), min_size=1, max_size=400))
def test_a_course_stays_small_and_keeps_its_oldest_and_its_newest_sample(
    steps: list[tuple[int, int]],
) -> None:
    made, at, end = Course(most=16), 0, 0
    for seconds, more in steps:
        at, end = at + seconds * S, end + more
        made.add(at, end)
        assert len(made) <= 16
    samples = list(made)
    assert samples == sorted(samples)
    assert samples[-1] == (at, end)
    assert samples[0][0] == steps[0][0] * S


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), min_size=2, max_size=100),
    st.data(),
)
def test_the_delay_is_between_the_looks_around_the_record(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    """With every look kept, the record's true age is within the same two looks."""
    samples, at, end = [(0, 0)], 0, 0
    for seconds, more in steps:
        at, end = at + seconds * S, end + more
        samples.append((at, end))
    ends, now = course(*samples, most=1000), at + S
    offset = data.draw(st.integers(0, end))
    found = delay(ends, offset, now)
    assert found is not None
    if offset == end:
        assert found == Delay(0)
        return
    after = next(at for at, end in samples if end > offset)
    before = max(at for at, end in samples if end <= offset)
    assert now - after <= found.ms <= now - before
    assert not found.least
