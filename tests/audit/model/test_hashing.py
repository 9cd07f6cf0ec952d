"""Hashes that add up, checked against the plain definition."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark_audit.model.contents import blocks_of
from tallymark_audit.model.hashing import BLOCK, MASK, content, content_sums, fingerprint, mix
from tallymark_audit.model.ranges import RangeSet

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


buffers = st.none() | st.binary(max_size=5) | st.binary(max_size=5).map(bytearray)


@given(st.integers(0, 2**63 - 4000), st.lists(st.tuples(buffers, buffers), max_size=50), st.data())
def test_contents_are_summed_as_one_by_one(
    first: int, records: list[tuple[bytes | None, bytes | None]], data: st.DataObject
) -> None:
    """Few or many at once, with keys, without any, and without so much as a column of them."""
    places = st.sets(st.integers(1, max(1, len(records) - 1)), max_size=4)
    starts = [0, *sorted(place for place in data.draw(places) if place < len(records))]
    if not records:
        assert blocks_of(first, None, []) == ()
        return
    keys, values = [key for key, _ in records], [value for _, value in records]
    for these in (keys, [None] * len(keys), None):
        hashes = [
            content(first + at, these[at] if these else None, value)
            for at, value in enumerate(values)
        ]
        ends = [*starts[1:], len(values)]
        expected = [sum(hashes[a:b]) & MASK for a, b in zip(starts, ends, strict=True)]
        assert content_sums(first, these, values, starts) == expected


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 5000), st.integers(1, 3000))
def test_blocks_are_those_of_the_sequences(first: int, count: int) -> None:
    blocks = blocks_of(first, None, [b"%d" % sequence for sequence in range(first, first + count)])
    told = {block.block: (block.records, block.hash) for block in blocks}
    expected: dict[int, tuple[int, int]] = {}
    for sequence in range(first, first + count):
        records, hashes = expected.get(sequence // BLOCK, (0, 0))
        hashed = content(sequence, None, b"%d" % sequence)
        expected[sequence // BLOCK] = records + 1, hashes + hashed & MASK
    assert told == expected
