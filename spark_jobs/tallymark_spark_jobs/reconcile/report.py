"""The report on the terminal: the verdict table, every loss by name, the offsets of copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from tallymark_audit.judge.verdicts import GOOD, UNDECIDED, CellVerdict, State, Verdict
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.repeats import sequences_of
from tallymark_audit.model.time_format import utc
from tallymark_spark_jobs.reconcile.outcome import Exit, Line, Outcome, findings, lines
from tallymark_spark_jobs.reconcile.shapes.search import LogSpan, located

NAMED = 20
"""Findings that are printed one by one; the JSON result has all of them."""
RANGES = 8
"""Ranges printed of one finding."""


def print_outcome(console: Console, outcome: Outcome) -> None:
    """Print the table, then the faults, then the verdict in one line."""
    for part in _parts(outcome):
        console.print(part, highlight=False)


def _parts(outcome: Outcome) -> Iterable[RenderableType]:
    table = lines(outcome.verdicts)
    if table:
        yield _table(table)
    found = findings(outcome.verdicts)
    for verdict, cell in found[:NAMED]:
        yield from finding_of(verdict, cell, outcome)
    if len(found) > NAMED:
        yield Text(f"... and {len(found) - NAMED} more findings: see the JSON result (--json)")
    yield from reasons_of(outcome.verdicts)
    yield from asides_of(outcome)
    yield summary_of(outcome, table)


def _table(table: Sequence[Line]) -> Table:
    unclaimed = any(line.unclaimed for line in table)
    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    shown.add_column("edge", no_wrap=True)
    shown.add_column("topic", no_wrap=True, overflow="ellipsis")
    numbers = ["windows", "claimed", "observed", "missing", "duplicated", "explained"]
    for name in [*numbers, *(["unclaimed"] if unclaimed else [])]:
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("state", no_wrap=True)
    for line in table:
        counts = [line.windows, line.claimed, line.observed, line.missing]
        counts += [line.duplicated, line.explained, *([line.unclaimed] if unclaimed else [])]
        state = Text(str(line.state), style=_style(line.state))
        shown.add_row(line.edge, line.topic, *(f"{count:,}" for count in counts), state)
    return shown


def finding_of(verdict: Verdict, cell: CellVerdict, outcome: Outcome) -> Iterable[Text]:
    """The lines of one finding: what is wrong, from which sender, and where the messages or copies
    are."""
    key = cell.key
    head = Text.assemble(
        "\n", (str(cell.state), _style(cell.state)), f" {verdict.edge} {key.topic}-{key.partition}"
    )
    yield head.append(f" window {utc(key.window)}")
    who = f"server {key.server or '(none)'}, instance {key.instance}" if key.stamped else "no stamp"
    if cell.missing_count:
        named = f": sequences {_ranges(cell.missing)}" if cell.missing else ""
        yield Text(f"  {cell.missing_count:,} missing of {who}{named}")
        yield from _where(located(cell, outcome.places), cell.missing)
    if cell.duplicates:
        yield Text(f"  {cell.duplicates:,} further copies of {who}{_copies(cell)}")
    if cell.unclaimed_count:
        named = f": sequences {_ranges(cell.unclaimed)}" if cell.unclaimed else ""
        yield Text(f"  {cell.unclaimed_count:,} unclaimed of {who}{named}")
    if cell.reason:
        yield Text(f"  {cell.reason}")


def _where(places: Sequence[LogSpan], missing: RangeSet) -> Iterable[Text]:
    for place in places[:RANGES]:
        yield Text(
            f"    in {place.cluster}: {place.topic}-{place.partition} offsets "
            f"{_span(place.first_offset, place.last_offset)} "
            f"(sequences {_span(place.first_sequence, place.last_sequence)})"
        )
    if len(places) > RANGES:
        yield Text(f"    and {len(places) - RANGES} more stretches")
    held = RangeSet((place.first_sequence, place.last_sequence) for place in places)
    if lost := missing - held:
        yield Text(f"    in no other cluster: sequences {_ranges(lost)}")


def _copies(cell: CellVerdict) -> str:
    """The offsets of the copies; for a group that processed messages twice, their sequences."""
    copies = cell.copies
    if not copies:
        return f": sequences {_ranges(sequences_of(cell.repeated))}" if cell.repeated else ""
    some = ", ".join(f"{c.sequence} at {c.partition}:{c.offset}" for c in copies[:RANGES])
    more = ", ..." if len(copies) > RANGES else ""
    return f" (sequence at partition:offset): {some}{more}"


def reasons_of(verdicts: Sequence[Verdict]) -> Iterable[Text]:
    """Why windows are undecided; each reason once."""
    seen: dict[tuple[str, str], int] = {}
    for verdict in verdicts:
        if verdict.state in UNDECIDED:
            for reason in verdict.reasons:
                seen[str(verdict.state), reason] = seen.get((str(verdict.state), reason), 0) + 1
    for (state, reason), windows in list(seen.items())[:RANGES]:
        yield Text(f"{state}, {windows} windows: {reason}", style="yellow")


def asides_of(outcome: Outcome) -> Iterable[Text]:
    """What else is to be known of the run, a line each."""
    if outcome.deferred:
        yield Text(
            f"{len(outcome.deferred):,} windows are older than what the logs still hold: "
            "for these the collector's verdict stands"
        )
    for one in outcome.damaged[:NAMED]:
        yield Text(f"{one.reason}; the rest was judged", style="red")
    if outcome.damaged_events:
        yield Text(
            f"{outcome.damaged_events:,} records of the audit topics are no audit events",
            style="yellow",
        )
    if outcome.unread:
        offsets = sum(one.last - one.first + 1 for one in outcome.unread)
        yield Text(
            f"{offsets:,} offsets behind the period were not read: copies that came later than "
            f"the settle time allows are not among these counts"
        )
    for note in outcome.notes:
        yield Text(note, style="yellow")
    if len(outcome.disagreements) > NAMED:
        yield Text(
            f"the collector differs on {len(outcome.disagreements):,} windows; the first of them:",
            style="yellow",
        )
    for row in outcome.disagreements[:NAMED]:
        yield Text(
            f"the collector differs on {row['edge']} {row['topic']} {utc(row['window'])}: "
            f"{row['collector_state']} ({row['collector_missing']:,} missing, "
            f"{row['collector_duplicates']:,} duplicated), counted from the data "
            f"{row['spark_state']} ({row['spark_missing']:,}, {row['spark_duplicates']:,})",
            style="yellow",
        )


def summary_of(outcome: Outcome, table: Sequence[Line]) -> Text:
    """The result in one line."""
    span = f"{outcome.period}, {len(outcome.verdicts):,} windows"
    if outcome.state is Exit.DISCREPANCIES:
        wrong = sum(line.missing for line in table), sum(line.duplicated for line in table)
        text = f"DISCREPANCIES: {wrong[0]:,} missing, {wrong[1]:,} duplicated"
        return Text(f"{text} ({span})", style="bold red")
    if not outcome.verdicts and not outcome.deferred and not outcome.damaged:
        why = "and every reporter says so" if outcome.idle else "and no reporter vouches for that"
        return Text(f"nothing was published or seen from {outcome.period}, {why}", style="bold")
    if outcome.state is Exit.UNDECIDED:
        return Text(f"UNDECIDED: not every window can be judged yet ({span})", style="bold yellow")
    return Text(f"COMPLETE ({span})", style="bold green")


def _ranges(sequences: RangeSet) -> str:
    some = RangeSet(sequences.ranges[:RANGES])
    return f"{some}, ..." if len(sequences.ranges) > RANGES else str(some)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _style(state: State) -> str:
    return "green" if state in GOOD else "yellow" if state in UNDECIDED else "red"
