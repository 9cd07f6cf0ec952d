"""What a reporter publishes, and what is left of it when events are lost, repeated or reordered.

The oracle is a plain dictionary of what was told to the books; it knows nothing of ranges,
revisions or events.
"""

import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark_audit.events.claim_book import ClaimBook, fold
from tallymark_audit.events.event_codec import decode_event, encode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.cells import FOREVER, Block
from tallymark_audit.model.hashing import MASK, mix
from tallymark_audit.reporters.books.tally import (
    CELLS_PER_EVENT,
    REPEATS,
    Outcome,
    ReporterIdentity,
    Run,
    Tally,
    TallyKey,
    runs_of,
)

WINDOW = 1000
ENDS = (Outcome.ACKNOWLEDGED, Outcome.FAILED, Outcome.IN_DOUBT)
IDENTITY = ReporterIdentity("producer-1", "web", "app", "00" * 8, WINDOW, 0)


def run(first: int, last: int, window: int = 0, partition: int = 0) -> Run:
    return Run(TallyKey("t", partition, window), first, last, window, window + 1)


class Facts(NamedTuple):
    """A cell in numbers: how many records ended how, the sum of the hashes of the acknowledged
    ones, their contents, and how many have a latency."""

    counts: tuple[int, ...]
    fingerprint: int
    blocks: tuple[Block, ...]
    timed: int


def block_of(sequence: int) -> Block:
    """Contents that nobody else makes up: blocks of four."""
    return Block(sequence // 4, 1, mix(sequence + 10**6))


def facts_of(records: list[tuple[int, Outcome | None]]) -> Facts:
    acknowledged = sorted(seq for seq, outcome in records if outcome is Outcome.ACKNOWLEDGED)
    blocks: dict[int, Block] = {}
    for number, _, hashed in map(block_of, acknowledged):
        known = blocks.get(number, Block(number, 0, 0))
        blocks[number] = Block(number, known.records + 1, known.hash + hashed & MASK)
    ends = [outcome for _, outcome in records]
    counts = (len(ends), len(acknowledged), *map(ends.count, ENDS[1:]))
    hashes = sum(map(mix, acknowledged)) & MASK
    return Facts(counts, hashes, tuple(blocks.values()), len(acknowledged))


def facts_in(book: ClaimBook) -> dict[tuple[int, int], Facts]:
    """What the claims say, whether they have ranges or not."""
    return {
        (key.partition, key.window): Facts(
            claim.numbers()[:4],
            claim.fingerprinted(),
            claim.blocks,
            sum(claim.latency[1::2]),
        )
        for key, claim in book.claims().items()
    }


@dataclass
class Books:
    """A tally beside the oracle's own notes: sequence -> (partition, window, outcome)."""

    tally: Tally = field(default_factory=lambda: Tally(IDENTITY))
    truth: dict[tuple[int, int], tuple[int, Outcome | None]] = field(default_factory=dict)
    next: dict[int, int] = field(default_factory=dict)
    now: int = 0

    def accept(self, partition: int, window: int, count: int) -> None:
        first = self.next.get(partition, 0)
        self.next[partition] = first + count
        self.tally.accept(run(first, first + count - 1, window, partition), count, self.now)
        for sequence in range(first, first + count):
            self.truth[partition, sequence] = (window, None)

    def settle(self, partition: int, sequence: int, outcome: Outcome) -> None:
        window, before = self.truth.get((partition, sequence), (0, Outcome.FAILED))
        if before is None:
            key = TallyKey("t", partition, window)
            acknowledged = outcome is Outcome.ACKNOWLEDGED
            self.tally.settle(
                key, outcome, sequence, sequence, self.now, 7 if acknowledged else None
            )
            if acknowledged:
                self.tally.fold(key, [block_of(sequence)])
            self.truth[partition, sequence] = (window, outcome)

    def forget(self, before: int) -> None:
        for key in self.tally.at_rest(before):
            self.tally.drop(key, self.tally.cells[key].carrier)

    def facts(self) -> dict[tuple[int, int], Facts]:
        """The truth, cell by cell."""
        cells: dict[tuple[int, int], list[tuple[int, Outcome | None]]] = {}
        for (partition, sequence), (window, outcome) in self.truth.items():
            cells.setdefault((partition, window), []).append((sequence, outcome))
        return {at: facts_of(records) for at, records in cells.items()}

    def told(self, book: ClaimBook) -> dict[tuple[int, int], tuple[int, Outcome | None]]:
        """What the claims say, in the oracle's words."""
        found: dict[tuple[int, int], tuple[int, Outcome | None]] = {}
        for key, claim in book.claims().items():
            outcomes = (
                (None, claim.pending),
                (Outcome.ACKNOWLEDGED, claim.acknowledged),
                (Outcome.FAILED, claim.failed),
                (Outcome.IN_DOUBT, claim.in_doubt),
            )
            for outcome, ranges in outcomes:
                for first, last in ranges:
                    for sequence in range(first, last + 1):
                        found[key.partition, sequence] = (key.window, outcome)
        return found


steps = st.lists(
    st.one_of(
        st.tuples(st.just("accept"), st.integers(0, 1), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(
            st.just("settle"), st.integers(0, 1), st.integers(0, 30), st.sampled_from(ENDS)
        ),
        st.tuples(
            st.just("report"), st.sampled_from(["acked", "lost", "refused", "waiting"]),
        ),
        st.tuples(st.just("forget")),
    ),
    max_size=60,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(steps, st.randoms(use_true_random=False), st.booleans())
def test_whatever_is_lost_the_last_report_makes_it_right(
    script: list[tuple[Any, ...]], chance: random.Random, closes: bool
) -> None:
    """Events are published, lost after they were acknowledged, refused, or still on their way; the
    reader gets what arrived twice and in any order. After one more report it knows everything."""
    books = Books()
    arrived: list[AuditEvent] = []
    lost_acknowledged = False
    for step in script:
        books.now += 10
        if step[0] == "accept":
            books.accept(step[1], step[2] * WINDOW, step[3])
        elif step[0] == "settle":
            books.settle(step[1], step[2], step[3])
        elif step[0] == "forget":
            books.forget(books.now - 20)
        else:
            events = books.tally.report(books.now, 0)
            for each in events:
                if step[1] == "acked":
                    books.tally.published(each.event_number)
                    arrived.append(each)
                elif step[1] == "refused":
                    books.tally.not_published(each.event_number)
                elif step[1] == "lost":
                    lost_acknowledged = True
    if not lost_acknowledged:
        arrived += books.tally.report(books.now, 0, closed=closes)
        twice = arrived * 2
        chance.shuffle(twice)
        book = fold(decode_event(encode_event(each)) for each in twice)
        assert books.told(book) == books.truth
        reporter = book.reporters["producer-1"]
        assert reporter.covered == books.tally.next_event - 1
        assert reporter.closed == closes
        assert reporter.ahead == ()


@settings(max_examples=100, deadline=None)
@given(steps, st.randoms(use_true_random=False), st.sampled_from([1000, 2]))
def test_after_the_next_event_that_arrives_the_claims_are_exact(
    script: list[tuple[Any, ...]], chance: random.Random, max_ranges: int
) -> None:
    """Events are lost after they were acknowledged, as many in a row as are repeated; refused, any
    number of them; and those that arrive come again later. Whenever one arrives the reader knows
    everything: ranges, counts and hashes of cells with too many of them, contents and latency; and
    nothing is added twice."""
    books, book, in_a_row = Books(Tally(IDENTITY, max_ranges)), ClaimBook(), 0
    arrived: list[AuditEvent] = []
    for step in [*script, ("report", "acked")]:
        books.now += 10
        if step[0] == "accept":
            books.accept(step[1], step[2] * WINDOW, step[3])
        elif step[0] == "settle":
            books.settle(step[1], step[2], step[3])
        elif step[0] == "report":
            lost = step[1] == "lost" and in_a_row < REPEATS
            (event,) = books.tally.report(books.now, books.now)
            if step[1] in ("refused", "waiting"):
                if step[1] == "refused":
                    books.tally.not_published(event.event_number)
                continue
            books.tally.published(event.event_number)
            in_a_row = in_a_row + 1 if lost else 0
            if lost:
                continue
            arrived.append(event)
            for each in [event, *chance.choices(arrived, k=2)]:
                book.add(decode_event(encode_event(each)))
            assert facts_in(book) == books.facts()
            reporter = book.reporters["producer-1"]
            assert (reporter.covered, reporter.complete_through) == (event.event_number, books.now)
    if max_ranges == 1000:
        assert books.told(book) == books.truth


def test_what_made_up_for_a_refused_report_is_repeated_as_long_as_that_one() -> None:
    """The first report was refused, and the next one made up for it; that one and two more were
    lost after they had been acknowledged. The fifth repeated those three only from their own
    beginnings, so the reader waited for the first one for ever."""
    books, book = Books(), ClaimBook()
    for said in ("refused", "lost", "lost", "lost", "arrives"):
        books.now += 10
        (event,) = books.tally.report(books.now, books.now)
        if said == "refused":
            books.tally.not_published(event.event_number)
            continue
        books.tally.published(event.event_number)
        if said == "arrives":
            book.add(event)
    assert book.reporters["producer-1"].covered == 4


@settings(max_examples=60, deadline=None)
@given(steps, st.randoms(use_true_random=False))
def test_complete_through_never_covers_what_did_not_arrive(
    script: list[tuple[Any, ...]], chance: random.Random
) -> None:
    """Any events may be lost, acknowledged or not, repeated and reordered. Whatever number the
    reader takes as covered, it knows all that was known when that report was made."""
    books = Books()
    published: list[AuditEvent] = []
    known_at: dict[int, dict[tuple[int, int], tuple[int, Outcome | None]]] = {-1: {}}
    for step in [*script, ("report", "acked")]:
        books.now += 10
        if step[0] == "accept":
            books.accept(step[1], step[2] * WINDOW, step[3])
        elif step[0] == "settle":
            books.settle(step[1], step[2], step[3])
        elif step[0] == "forget":
            books.forget(books.now - 20)
        else:
            for each in books.tally.report(books.now, 0):
                published.append(each)
                known_at[each.event_number] = dict(books.truth)
                if step[1] in ("acked", "lost"):
                    books.tally.published(each.event_number)
                elif step[1] == "refused":
                    books.tally.not_published(each.event_number)
    arrived = [each for each in published * 2 if chance.random() < 0.5]
    chance.shuffle(arrived)
    book = ClaimBook()
    for each in arrived:
        book.add(each)
        told = books.told(book)
        covered = book.reporters["producer-1"].covered
        for message, (window, outcome) in known_at[covered].items():
            assert message in told, f"covered through {covered}, but {message} is not known"
            assert told[message] == (window, outcome) or outcome is None


def test_an_acknowledged_event_that_is_lost_is_healed_by_the_next() -> None:
    """The broker's log was cut: reports 1 and 2 had been acknowledged and are gone. Report 3
    repeats what they said, so the reader misses nothing and knows that it misses nothing."""
    books = Books()
    events: list[AuditEvent] = []
    for number in range(REPEATS + 1):
        books.accept(0, 0, 1)
        events += books.tally.report(number, number)
        books.tally.published(number)
    book = fold([events[0], events[3]])
    assert books.told(book) == books.truth
    assert book.reporters["producer-1"].covered == 3


def test_a_refused_report_does_not_count_as_a_repetition() -> None:
    """Three acknowledged reports were lost and a fourth was refused: the fifth repeated what the
    last three of these had said, and the first remained a hole."""
    books = Books()
    for number in range(REPEATS):
        books.accept(0, 0, 1)
        books.tally.report(number, number)
        books.tally.published(number)
    books.tally.report(8, 8)
    books.tally.not_published(REPEATS)
    (healing,) = books.tally.report(9, 9)
    book = fold([healing])
    assert books.told(book) == books.truth
    assert book.reporters["producer-1"].covered == healing.event_number


def test_a_gap_that_nothing_heals_stops_the_clock() -> None:
    """More reports were lost than are repeated: what came after says nothing about before."""
    books = Books()
    events: list[AuditEvent] = []
    for number in range(6):
        books.accept(0, number * WINDOW, 1)
        events += books.tally.report(number, complete_through=(number + 1) * WINDOW)
        books.tally.published(number)
    book = fold([events[0], events[5]])
    reporter = book.reporters["producer-1"]
    assert (reporter.covered, reporter.complete_through) == (0, WINDOW)
    assert str(reporter.facts().lost) == "1-4"
    books.tally.publish_again()
    (healing,) = books.tally.report(9, complete_through=7 * WINDOW)
    book.add(healing)
    assert book.reporters["producer-1"].complete_through == 7 * WINDOW
    assert not book.reporters["producer-1"].facts().lost
    assert books.told(book) == books.truth


def test_a_lower_revision_changes_nothing() -> None:
    books = Books()
    books.accept(0, 0, 1)
    old = books.tally.report(0, 0)
    books.accept(0, 0, 5)
    new = books.tally.report(1, 1000)
    book = fold([*new, *old, *new, *old])
    assert books.told(book) == books.truth
    assert book.reporters["producer-1"].complete_through == 1000


def test_a_cell_that_comes_back_after_it_was_forgotten_adds_up() -> None:
    """A back-fill leaves a window and returns to it an hour later: the second part must not
    replace the first."""
    books = Books()
    events: list[AuditEvent] = []
    books.accept(0, 0, 3)
    for sequence in range(3):
        books.settle(0, sequence, Outcome.ACKNOWLEDGED)
    for number in range(5):
        events += books.tally.report(number, 0)
        books.tally.published(number)
    books.now = 10_000
    books.forget(books.now)
    assert not books.tally.cells
    books.accept(0, 0, 2)
    events += books.tally.report(books.now, 0, closed=True)
    book = fold(events)
    assert books.told(book) == books.truth
    assert book.reporters["producer-1"].closed


def test_nothing_is_forgotten_before_it_is_safe() -> None:
    books = Books()
    books.accept(0, 0, 1)
    for number in range(6):  # published, never acknowledged
        books.tally.report(number, 0)
        assert not books.tally.at_rest(10**9)
    books.settle(0, 0, Outcome.ACKNOWLEDGED)
    assert not books.tally.at_rest(10**9)


def test_a_large_report_is_split_and_counts_only_as_a_whole() -> None:
    books = Books()
    for window in range(CELLS_PER_EVENT + 1):
        books.accept(0, window * WINDOW, 1)
    first, second = books.tally.report(0, complete_through=5000)
    assert (first.group, second.group) == (1, 2)
    assert first.complete_through == 0
    book = fold([second])
    assert book.reporters["producer-1"].complete_through == 0
    book.add(first)
    assert book.reporters["producer-1"].complete_through == 5000
    assert books.told(book) == books.truth


def test_joining_late_takes_the_first_event_as_the_beginning() -> None:
    """The audit topic's old events have expired: what is left must not wait for them for ever."""
    books = Books()
    events: list[AuditEvent] = []
    for number in range(9):
        books.accept(0, number * WINDOW, 1)
        events += books.tally.report(number, number * WINDOW)
        books.tally.published(number)
    trimmed = fold(events[6:], trimmed=True).reporters["producer-1"]
    assert (trimmed.covered, trimmed.complete_through) == (8, 8 * WINDOW)
    assert fold(events[6:]).reporters["producer-1"].covered == -1


def test_closing_says_for_ever() -> None:
    books = Books()
    (last,) = books.tally.report(0, 0, closed=True)
    assert last.complete_through == FOREVER
    assert not books.tally.all_published
    books.tally.published(0)
    assert books.tally.all_published


def test_a_batch_is_cut_where_its_window_changes() -> None:
    assert runs_of("t", 0, 5, [], WINDOW) == []
    assert runs_of("t", 0, 5, [1, 2, 999], WINDOW) == [
        Run(TallyKey("t", 0, 0), 5, 7, 1, 999),
    ]
    assert runs_of("t", 0, 5, [999, 1000, 1001, 3], WINDOW) == [
        Run(TallyKey("t", 0, 0), 5, 5, 999, 999),
        Run(TallyKey("t", 0, 1000), 6, 7, 1000, 1001),
        Run(TallyKey("t", 0, 0), 8, 8, 3, 3),
    ]
