"""The tables that the commands print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tallymark.untrusted import escaped
from tallymark_audit.judge.verdicts import GOOD, UNDECIDED, State
from tallymark_audit.model.cells import LAKE
from tallymark_audit.model.hashing import BLOCK
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.repeats import sequences_of
from tallymark_audit.model.time_format import percent, utc
from tallymark_audit.store.reading.queries import TopicSummary
from tallymark_audit.store.reading.window_evidence import Evidence, shown_evidence
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.shown import shown_verdict

_AFTER_OBSERVED = ("pending", "missing", "explained", "duplicates", "unclaimed", "excused")
FILE_WIDTH = 160
MANY = 12
"""Ranges or places printed of one cell; ``--json`` has all."""


def console() -> Console:
    """Where tables go. In a file or a pipe they are as wide as they need, not 80 columns."""
    made = Console()
    return made if made.is_terminal else Console(width=FILE_WIDTH)


def overview_table(topics: Iterable[TopicSummary]) -> Table:
    """One line an edge and topic: claimed = observed + pending + missing + explained."""
    table = Table(
        "edge", "topic", "windows", "claimed", "observed", "complete %", *_AFTER_OBSERVED,
        "complete through", "holes", box=None,
    )  # fmt: skip
    for topic in topics:
        states = ", ".join(f"{count} {styled(state)}" for state, count in topic.states.items())
        states += f"; {plain(topic.skewed)}" if topic.skewed else ""
        table.add_row(
            plain(topic.edge),
            plain(topic.topic),
            states,
            str(topic.claimed),
            str(topic.observed),
            percent(topic.claimed - topic.missing, topic.claimed),
            *(str(getattr(topic, name) or "") for name in _AFTER_OBSERVED),
            utc(topic.through) if topic.through > 0 else "not yet",
            str(len(topic.holes) or ""),
        )
    return table


def verdict_table(rows: Iterable[Row]) -> Table:
    """One line a window: claimed = observed + pending + missing + explained, in each."""
    table = Table(
        "window", "edge", "topic", "state", "claimed", "observed", *_AFTER_OBSERVED,
        "rev", "by", "why", box=None,
    )  # fmt: skip
    for row in map(shown_verdict, rows):
        reason = row["reasons"][0] if row["reasons"] else ""
        table.add_row(
            utc(row["window"]),
            plain(row["edge"]),
            plain(row["topic"]),
            styled(row["state"]),
            str(row["claimed"]),
            str(row["observed"]),
            *(str(row[name] or "") for name in _AFTER_OBSERVED),
            str(row["revision"]),
            row["source"],
            plain(reason),
        )
    return table


def _offsets(start: int, end: int) -> str:
    """Offsets ``start`` up to ``end``, excluded, as people read them; none are no text."""
    if start < 0:
        return ""
    return f" offset {start}" if end <= start + 1 else f" offsets {start}-{end - 1}"


def _pending(cell: Row) -> str:
    """Messages that have not arrived yet, and still may."""
    said = _ranges(cell.get("pending", [])) or str(cell.get("pending_count") or "")
    return f"pending: {said}" if said else ""


def evidence_tables(found: Evidence) -> Iterator[Table]:
    """The verdicts with their cells, how it was at its worst, both sides, and what happened."""
    found = shown_evidence(found)
    for row in found.verdicts:
        yield verdict_table([row])
        if row["cells"]:
            yield _cell_table(row["cells"])
    if found.was is not None:
        title = f"was {found.was.state} until {utc(found.was.until)}: what was named then"
        yield _cell_table(found.was.cells, title)
    yield _side_table("claimed or upstream", found.upstream)
    yield _side_table("downstream", found.downstream)
    for incident in found.incidents:
        table = Table("when", "what", "where", "why", box=None, title="incident")
        where = f"{incident['cluster']} {incident['topic']}-{incident['partition']}"
        where += _offsets(incident["from_offset"], incident["to_offset"])
        at = utc(incident["at"])
        table.add_row(at, incident["kind"], plain(where), plain(incident["reason"]))
        yield table
    if len(found.history) > 1 or found.was is not None:
        yield _history_table(found.history)
    if found.repairs:
        yield _repair_table(found.repairs)


def _history_table(rows: Iterable[Row]) -> Table:
    table = Table(
        "judged", "by", "rev", "state", "observed", *_AFTER_OBSERVED, "why", box=None,
        title="what was said of it",
    )  # fmt: skip
    for row in rows:
        table.add_row(
            utc(row["judged_at"]),
            plain(row["source"]),
            str(row["revision"]),
            styled(row["state"]),
            str(row["observed"]),
            *(str(row[name] or "") for name in _AFTER_OBSERVED),
            plain(row["reasons"][0] if row["reasons"] else ""),
        )
    return table


def _repair_table(rows: Iterable[Row]) -> Table:
    names = ("server", "instance", "partition", "sequences", "copied", "there", "outcome", "why")
    table = Table("repaired", *names, box=None, title="repairs")
    for row in rows:
        table.add_row(
            utc(row["at"]),
            plain(row["server"] or "(no stamp)"),
            plain(row["instance"]),
            str(row["partition"]),
            _ranges(row["sequences"]),
            str(row["copied"]),
            str(row["present"]),
            plain(row["outcome"]),
            plain(row["reason"]),
        )
    return table


def _cell_table(cells: Sequence[Row], title: str | None = None) -> Table:
    names = ("server", "instance", "partition", "state", "missing", "where", "copies", "why")
    table = Table(*names, box=None, title=title)
    for cell in cells:
        places = [
            f"{place['cluster']} {place['topic']}-{place['partition']} "
            f"offsets {place['first_offset']}-{place['last_offset']}"
            for place in cell["located"]
        ]
        table.add_row(
            plain(cell["server"] or "(no stamp)"),
            plain(cell["instance"]),
            str(cell["partition"]),
            styled(cell["state"]),
            _ranges(cell["missing"]) or str(cell["missing_count"] or "") or _pending(cell),
            plain("; ".join(places[:MANY])),
            plain(_copies(cell)),
            plain(_why(cell)),
        )
    return table


def _copies(cell: Row) -> str:
    """The offsets of the copies; for a group that processed messages twice, their sequences."""
    copies = [f"{offset} (sequence {sequence})" for _, offset, sequence in cell["copies"]]
    repeated = cell.get("repeated")
    if not copies and repeated:
        again = sequences_of(RangeSet.from_list(flat) for flat in repeated)
        return f"sequences {_ranges(again.to_list())} again"
    return "; ".join(copies[:MANY])


def _why(cell: Row) -> str:
    """The reason, the sequences of each explanation, and the corrupt blocks."""
    said = [cell["reason"]] if cell["reason"] else []
    said += [f"{why}: {_ranges(flat)}" for why, flat in cell.get("explanations", {}).items()]
    changed = [f"{offset} (sequence {sequence})" for _, offset, sequence in cell.get("changed", [])]
    if changed:
        said.append(f"changed: {'; '.join(changed[:MANY])}")
    elif cell.get("corrupt"):
        blocks = ", ".join(f"{n * BLOCK}-{n * BLOCK + BLOCK - 1}" for n in cell["corrupt"][:MANY])
        said.append(f"changed somewhere in sequences {blocks}")
    return "; ".join(said)


def _side_table(title: str, rows: Sequence[Row]) -> Table:
    table = Table("server", "instance", "partition", "count", "sequences", box=None, title=title)
    for row in rows:
        sequences = row["ranges"] if "ranges" in row else row["acknowledged"]
        table.add_row(
            plain(row["server"] or "(no stamp)"),
            plain(row["instance"]),
            str(row["partition"]),
            str(row["count"]),
            _ranges(sequences) + _of_lake(row),
        )
    return table


def _of_lake(row: Row) -> str:
    """Of the lake, which commit brought the rows, and what went to the quarantine with it."""
    if row.get("tier") != LAKE:
        return ""
    aside = f", quarantined {_ranges(row['failed'])}" if row["failed"] else ""
    return f" in version {row['part']}{aside}"


def _ranges(flat: Sequence[int]) -> str:
    ranges = RangeSet.from_list(flat)
    few = str(RangeSet(ranges.ranges[:MANY]))
    more = len(ranges.ranges) - MANY
    return f"{few}, and {more} more ranges" if more > 0 else few


def styled(state: str) -> str:
    """The state in its colour; the word alone is enough without colours."""
    good, waiting = State(state) in GOOD, State(state) in UNDECIDED
    return f"[{'green' if good else 'yellow' if waiting else 'red'}]{state}[/]"


def plain(text: str) -> str:
    """Text from outside, which must not be taken for markup or control the terminal."""
    return escape(escaped(text))
