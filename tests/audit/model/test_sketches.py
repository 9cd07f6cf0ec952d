"""Sketches of durations: right to 2 %, and merging is adding."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.model import sketches

values = st.lists(st.floats(0, 1e9), min_size=1, max_size=200)


def sketched(numbers: list[float]) -> sketches.Sketch:
    sketch: sketches.Sketch = {}
    for number in numbers:
        sketches.add(sketch, number)
    return sketch


@given(values, st.sampled_from([0.0, 0.5, 0.9, 0.99, 0.999, 1.0]))
def test_a_quantile_is_right_to_two_percent(numbers: list[float], share: float) -> None:
    true = sorted(numbers)[math.floor(share * (len(numbers) - 1))]
    found = sketches.quantile(sketched(numbers), share)
    assert found is not None
    assert found <= 1 if true <= 1 else abs(found - true) <= 0.0201 * true


@given(values, values)
def test_merging_is_counting_both(one: list[float], two: list[float]) -> None:
    assert sketches.merged([sketched(one), sketched(two)]) == sketched(one + two)


@given(values)
def test_the_flat_form_is_read_as_it_was_written(numbers: list[float]) -> None:
    sketch = sketched(numbers)
    assert sketches.from_list(sketches.to_list(sketch)) == sketch


@pytest.mark.parametrize("flat", [[1], [601, 1], [-2, 1], [3, 0], [3, 1, 3, 1]])
def test_what_is_no_sketch_is_refused(flat: list[int]) -> None:
    with pytest.raises(ValueError, match="sketch"):
        sketches.from_list(flat)


def test_negative_and_endless_durations_have_a_place() -> None:
    assert sketches.quantile(sketched([-5.0]), 0.5) == 0
    assert sketches.bucket_of(1e300) == sketches.LAST
    assert sketches.quantile({}, 0.5) is None
