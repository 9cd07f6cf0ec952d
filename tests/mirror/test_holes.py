"""Offsets that a log does not have, and what is known of the reason."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tallymark.mirror.source import gaps as holes
from tallymark.mirror.source.gaps import ABORTED, COMPACTION, CONTROL, UNKNOWN, GapNotes, OffsetGap
from tallymark.protocol.records.batch import BatchHeader, encode_batch, read_header

P = ("clicks", 0)


def header(first: int, last: int, records: int, control: bool = False) -> BatchHeader:
    whole = read_header(encode_batch([(None, b"x", (), 1)], base_offset=first))
    return whole._replace(
        last_offset_delta=last - first,
        record_count=records,
        attributes=0x20 if control else 0,
    )


def noted(*headers: BatchHeader) -> GapNotes:
    notes = GapNotes()
    notes.note(P, headers)
    return notes


def test_a_marker_a_removed_record_and_a_removed_batch() -> None:
    notes = noted(header(0, 9, 10), header(10, 10, 1, control=True), header(11, 20, 4))
    assert notes.explain(P, 10, 11) == [OffsetGap(10, 11, CONTROL)]
    assert notes.explain(P, 12, 15) == [OffsetGap(12, 15, COMPACTION)]
    assert notes.explain(P, 19, 40) == [OffsetGap(19, 21, COMPACTION), OffsetGap(21, 40, UNKNOWN)]
    assert notes.explain(P, 50, 52) == [OffsetGap(50, 52, UNKNOWN)]
    assert notes.explain(("views", 0), 1, 2) == [OffsetGap(1, 2, UNKNOWN)]


def test_what_was_told_otherwise_is_not_told_again() -> None:
    notes = GapNotes()
    notes.reported(P, 5, 100)
    assert notes.explain(P, 3, 102) == [OffsetGap(3, 5, UNKNOWN), OffsetGap(100, 102, UNKNOWN)]


def test_whole_batches_leave_no_note_and_old_ones_are_forgotten() -> None:
    notes = noted(*(header(at, at + 9, 10) for at in range(0, 1000, 10)))
    assert not notes._notes
    notes = noted(header(0, 0, 1, control=True), header(1, 9, 2))
    notes.explain(P, 0, 10)
    assert not notes._notes[P]
    notes.note(P, [header(10, 10, 1, control=True)])
    notes.forget()
    assert notes.explain(P, 10, 11) == [OffsetGap(10, 11, UNKNOWN)]


def test_a_fetch_that_is_repeated_says_the_same() -> None:
    marker = header(3, 3, 1, control=True)
    assert noted(marker, marker).explain(P, 3, 4) == [OffsetGap(3, 4, CONTROL)]


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5), st.booleans()), max_size=12),
    st.integers(0, 40),
    st.integers(1, 20),
)
def test_the_parts_are_the_hole(
    batches: list[tuple[int, int, bool]], start: int, length: int
) -> None:
    notes = noted(*(header(first, first + more, 0, control) for first, more, control in batches))
    parts = notes.explain(P, start, start + length)
    assert [at for part in parts for at in range(part.start, part.end)] == list(
        range(start, start + length)
    )
    known = {at for first, more, _ in batches for at in range(first, first + more + 1)}
    for part in parts:
        assert (part.reason != UNKNOWN) == set(range(part.start, part.end)).issubset(known)


def test_notes_are_bounded() -> None:
    count = holes.NOTES_KEPT + 10
    notes = noted(*(header(2 * at, 2 * at, 1, control=True) for at in range(count)))
    assert len(notes._notes[P]) == holes.NOTES_KEPT
    assert notes.explain(P, 0, 1) == [OffsetGap(0, 1, UNKNOWN)]


def test_what_was_aborted_has_its_reason() -> None:
    notes = noted(header(3, 3, 1, control=True))
    notes.aborted(P, [header(0, 2, 3)])
    assert notes.explain(P, 0, 5) == [
        OffsetGap(0, 3, ABORTED),
        OffsetGap(3, 4, CONTROL),
        OffsetGap(4, 5, UNKNOWN),
    ]
