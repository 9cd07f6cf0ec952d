"""The drill's tables: for a terminal, as Markdown and as JSON. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rich.table import Table

from tallymark_audit.model.time_format import percent
from tallymark_audit.proof.drill.faults.ground_truth import FaultNote
from tallymark_audit.proof.drill.faults.kinds import SIDE_FAULTS
from tallymark_audit.proof.drill.findings.detection_times import Times
from tallymark_audit.proof.drill.planning.plan import SKEW
from tallymark_audit.proof.drill.scoring.compare import Comparison, Score
from tallymark_audit.proof.drill.scoring.side_scores import SideScore
from tallymark_audit.proof.drill.truth.expected import SKEWED, Finding

_SHOWN = 20
HEADINGS = (
    "kind", "made", "found", "missed", "false", "recall %", "precision %",
    "cells", "found", "false", "healthy", "detect s", "name s",
)  # fmt: skip

SIDE_HEADINGS = ("beside the main traffic", "done", "to find", "found", "missed", "false")


@dataclass(slots=True)
class DrillOutcome:
    """All that a drill found out. Times in seconds; ``repair_seconds`` None: nothing was repaired.
    ``after``: the comparison once more, after the repair. ``beside``: what happened beside the
    main traffic. ``taken_back``: alarms that were, and why they had been; ``deaths``: of
    collectors; ``places``: where the messages of wrong verdicts lie."""

    seed: int
    faults: tuple[str, ...]
    messages: int
    duration: float
    hits: dict[str, int]
    comparison: Comparison
    hidden: int = 0
    times: Mapping[str, Times] = field(default_factory=dict[str, Times])
    repaired: int = 0
    repair_seconds: float | None = None
    after: Comparison | None = None
    problems: list[str] = field(default_factory=list[str])
    beside: tuple[SideScore, ...] = ()
    taken_back: list[str] = field(default_factory=list[str])
    deaths: list[str] = field(default_factory=list[str])
    places: list[str] = field(default_factory=list[str])

    @property
    def idle(self) -> list[str]:
        """Faults that were to happen and hit nothing: of them the drill proves nothing."""
        silent = self.comparison.expected(SKEWED) == 0
        return [
            kind
            for kind in self.faults
            if (kind != SKEW and not self.hits.get(kind)) or (kind == SKEW and silent)
        ]

    @property
    def perfect(self) -> bool:
        """Recall and precision 100 %, before and after the repair, no alarm that was taken back
        and no collector that died."""
        again = self.after is None or self.after.perfect
        beside = all(score.perfect for score in self.beside)
        quiet = not (self.problems or self.taken_back or self.deaths)
        return self.comparison.perfect and again and beside and quiet


def hits_of(notes: Iterable[FaultNote]) -> dict[str, int]:
    """Messages that each fault hit (of monitoring events: events)."""
    hits: Counter[str] = Counter()
    # What vanished from a log is noted for every mirror that may have brought it.
    for note in {replace(note, hop="") for note in notes}:
        hits[note.kind] += note.sequences.size or 1
    return dict(sorted(hits.items()))


def terminal_table(outcome: DrillOutcome) -> Table:
    """The confusion matrix, one line a kind."""
    table = Table(*HEADINGS, box=None)
    for row in _rows(outcome):
        table.add_row(*row)
    return table


def side_table(outcome: DrillOutcome) -> Table:
    """What happened beside the main traffic, one line a kind, and what must not happen."""
    table = Table(*SIDE_HEADINGS, box=None)
    for row in _side_rows(outcome):
        table.add_row(*row)
    return table


def markdown(outcomes: Sequence[DrillOutcome]) -> str:
    """All drills: what was done, and one matrix over all of them."""
    lines = ["| seed | messages | faults that hit | verdict |", "|---|---|---|---|"]
    for one in outcomes:
        hits = ", ".join(f"{kind} {count}" for kind, count in one.hits.items())
        verdict = "all right" if one.perfect else "wrong"
        lines.append(f"| {one.seed} | {one.messages:,} | {hits or 'none'} | {verdict} |")
    lines += ["", f"| {' | '.join(HEADINGS)} |", "|---" * len(HEADINGS) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in _rows(merged_outcome(outcomes))]
    lines += ["", f"| {' | '.join(SIDE_HEADINGS)} |", "|---" * len(SIDE_HEADINGS) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in _side_rows(merged_outcome(outcomes))]
    repaired = sum(one.repaired for one in outcomes)
    seconds = [one.repair_seconds for one in outcomes if one.repair_seconds is not None]
    if seconds:
        lines += [
            "",
            f"Repaired: {repaired:,} messages; until all was judged again {_span(seconds)} s.",
        ]
    return "\n".join(lines) + "\n"


def merged_outcome(outcomes: Sequence[DrillOutcome]) -> DrillOutcome:
    """Several drills as one: counts added, times together."""
    beside: dict[str, SideScore] = {}
    scores: dict[str, Score] = {}
    times: dict[str, Times] = {}
    hits: Counter[str] = Counter()
    for one in outcomes:
        hits.update(one.hits)
        for score in one.comparison.scores:
            known = scores.get(score.kind)
            scores[score.kind] = _add(known, score) if known else score
        for side in one.beside:
            so_far = beside.get(side.kind)
            beside[side.kind] = _add_side(so_far, side) if so_far else side
        for kind, taken in one.times.items():
            before = times.get(kind, Times())
            times[kind] = Times(before.detect + taken.detect, before.name + taken.name)
    return DrillOutcome(
        seed=outcomes[0].seed,
        faults=tuple(dict.fromkeys(kind for one in outcomes for kind in one.faults)),
        messages=sum(one.messages for one in outcomes),
        duration=sum(one.duration for one in outcomes),
        hits=dict(hits),
        comparison=Comparison(tuple(scores.values())),
        times=times,
        beside=tuple(beside[kind] for kind in SIDE_FAULTS if kind in beside),
        taken_back=[line for one in outcomes for line in one.taken_back],
        deaths=[line for one in outcomes for line in one.deaths],
    )


def outcome_to_json(outcome: DrillOutcome) -> dict[str, Any]:
    """Everything, for machines."""
    return {
        "seed": outcome.seed,
        "faults": list(outcome.faults),
        "messages": outcome.messages,
        "duration": outcome.duration,
        "hits": outcome.hits,
        "idle": outcome.idle,
        "perfect": outcome.perfect,
        "hidden": outcome.hidden,
        "kinds": [asdict(score) for score in outcome.comparison.scores],
        "missed": named(outcome.comparison.missed),
        "invented": named(outcome.comparison.invented),
        "unplaced": named(outcome.comparison.unplaced),
        "undecided": list(outcome.comparison.undecided),
        "times": {kind: asdict(taken) for kind, taken in outcome.times.items()},
        "repaired": outcome.repaired,
        "repair_seconds": outcome.repair_seconds,
        "after_repair": None if outcome.after is None else {
            "perfect": outcome.after.perfect,
            "missed": named(outcome.after.missed),
            "invented": named(outcome.after.invented),
            "undecided": list(outcome.after.undecided),
        },
        "beside": [asdict(score) for score in outcome.beside],
        "taken_back": outcome.taken_back,
        "deaths": outcome.deaths,
        "places": outcome.places,
        "problems": outcome.problems,
    }  # fmt: skip


def named(items: Iterable[Finding]) -> list[str]:
    """Items as text, some of them."""
    ordered = sorted(items)
    shown = [
        f"{item.kind} {item.cell.edge} {item.cell.topic}-{item.cell.partition} "
        f"window {item.cell.window} {item.cell.server} {item.cell.instance} {item.number}"
        for item in ordered[:_SHOWN]
    ]
    more = len(ordered) - len(shown)
    return [*shown, f"and {more} more"] if more else shown


def _rows(outcome: DrillOutcome) -> list[list[str]]:
    rows: list[list[str]] = []
    for score in outcome.comparison.scores:
        taken = outcome.times.get(score.kind, Times())
        said = score.right + score.wrong
        counts = (score.expected, score.right, score.expected - score.right, score.wrong)
        cells = (score.cells_expected, score.cells_right, score.cells_wrong, score.healthy)
        rows.append(
            [
                score.kind,
                *(f"{count:,}" for count in counts),
                percent(score.right, score.expected),
                percent(score.right, said),
                *(f"{count:,}" for count in cells),
                _span(taken.detect),
                _span(taken.name),
            ]
        )
    return rows


def _side_rows(outcome: DrillOutcome) -> list[list[str]]:
    rows = [
        [
            score.kind,
            *(
                f"{count:,}"
                for count in (
                    score.done, score.expected, score.found, score.expected - score.found,
                    score.wrong,
                )
            ),
        ]
        for score in outcome.beside
    ]  # fmt: skip
    for what, lines in (
        ("alarms taken back", outcome.taken_back),
        ("collector deaths", outcome.deaths),
    ):
        rows.append([what, "", "0", "", "", f"{len(lines):,}"])
    return rows


def _add_side(one: SideScore, other: SideScore) -> SideScore:
    left, right = asdict(one), asdict(other)
    return SideScore(**{k: v if k == "kind" else v + right[k] for k, v in left.items()})


def _span(seconds: Sequence[float]) -> str:
    """Median and maximum."""
    if not seconds:
        return "-"
    return f"{statistics.median(seconds):.1f} (max {max(seconds):.1f})"


def _add(one: Score, other: Score) -> Score:
    left, right = asdict(one), asdict(other)
    return Score(**{k: v if k == "kind" else v + right[k] for k, v in left.items()})
