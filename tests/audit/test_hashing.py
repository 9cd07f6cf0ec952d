"""Hashes that add up, checked against the plain definition."""

from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.hashing import MASK, content, fingerprint, mix
from tallymark_audit.ranges import RangeSet

ranges = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 1500)), max_size=6).map(
    lambda pairs: RangeSet((first, first + more) for first, more in pairs)
)


@given(ranges)
def test_a_fingerprint_is_the_sum_over_the_sequences(some: RangeSet) -> None:
    one_by_one = sum(mix(n) for first, last in some for n in range(first, last + 1))
    assert fingerprint(some) == one_by_one & MASK


@given(ranges, ranges)
def test_fingerprints_of_disjoint_sets_add_up(one: RangeSet, two: RangeSet) -> None:
    rest = two - one
    assert fingerprint(one | two) == (fingerprint(one) + fingerprint(rest)) & MASK


def test_one_sequence_for_another_is_seen() -> None:
    assert fingerprint(RangeSet([(0, 9), (11, 11)])) != fingerprint(RangeSet([(0, 10)]))


def test_contents_differ_by_every_part_of_a_record() -> None:
    told = {
        content(1, b"k", b"v"),
        content(2, b"k", b"v"),
        content(1, b"k", b"w"),
        content(1, b"l", b"v"),
        content(1, None, b"v"),
        content(1, b"", b"v"),
        content(1, b"k", None),
        content(1, b"k", b""),
    }
    assert len(told) == 8


def test_two_records_that_changed_places_do_not_cancel() -> None:
    right = content(1, None, b"one") + content(2, None, b"two")
    wrong = content(1, None, b"two") + content(2, None, b"one")
    assert right & MASK != wrong & MASK
