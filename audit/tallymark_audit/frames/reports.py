"""What a reconciliation wrote, as frames: its JSON, or the table of verdicts in the lake."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tallymark.errors import UserError
from tallymark_audit.frames.columns import frame_of_dicts, pandas
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store.schema.tables import SUMS

if TYPE_CHECKING:
    from pandas import DataFrame

VERDICTS: Final = (
    "edge",
    "topic",
    "window",
    "source",
    "state",
    *SUMS,
    "judged_at",
    "accepted_by",
    "reasons",
)
CELLS: Final = (
    "edge",
    "topic",
    "window",
    "partition",
    "server",
    "instance",
    "state",
    *SUMS,
    "sequences",
    "reason",
)
SPARK: Final = "spark"
_TIMES: Final = ("window", "judged_at")


@dataclass(frozen=True, slots=True)
class ReportFrames:
    """The JSON of ``tallymark reconcile --json`` as frames. It lists the windows that are not
    simply complete; of the others it has the sums, in :meth:`edges`."""

    raw: Mapping[str, Any]

    def verdicts(self) -> DataFrame:
        """The windows that are not COMPLETE, in the columns of
        :meth:`~tallymark_audit.frames.audit.AuditFrames.verdicts`."""
        return frame_of_dicts(VERDICTS, map(self._row, self.raw["verdicts"]))

    def findings(self) -> DataFrame:
        """Their cells, in the columns of
        :meth:`~tallymark_audit.frames.audit.AuditFrames.findings`."""
        return frame_of_dicts(CELLS, wrong_cells(self.raw["verdicts"]))

    def edges(self) -> DataFrame:
        """The sums over all windows, a row an edge and topic, with the columns of the report."""
        pd = pandas()
        found: Any = pd.DataFrame(list(self.raw["edges"]))
        return found

    def _row(self, verdict: Mapping[str, Any]) -> dict[str, Any]:
        at = verdict.get("as_of", self.raw.get("as_of", -1))
        return {**verdict, "source": SPARK, "judged_at": at}


def read_report(path: str | Path) -> ReportFrames:
    """Read the JSON result of a reconciliation. UserError: it cannot be read, or is none."""
    try:
        raw = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}", "give the file of --json") from error
    if not (isinstance(raw, dict) and {"verdicts", "edges"} <= raw.keys()):
        raise UserError(
            f"{path} is not the result of a reconciliation", "give the file of: reconcile --json"
        )
    return ReportFrames(raw)


def verdicts_of(rows: Any) -> DataFrame:
    """Verdicts that were read from a table of the lake (a frame, an Arrow table, or a list of
    rows), in the columns and types of
    :meth:`~tallymark_audit.frames.audit.AuditFrames.verdicts`. Times may be ms or timestamps.
    UserError: a column of the key is not there."""
    found = rows.to_pylist() if hasattr(rows, "to_pylist") else rows
    if hasattr(found, "to_dict"):
        found = found.to_dict("records")
    told = [{**row, **{name: _ms(row[name]) for name in _TIMES if name in row}} for row in found]
    lacking = {"edge", "topic", "window", "state"}.difference(*(row.keys() for row in told[:1]))
    if told and lacking:
        raise UserError(f"verdicts without {', '.join(sorted(lacking))}", "read the table whole")
    told.sort(key=lambda row: (row["window"], row["edge"], row["topic"]))
    return frame_of_dicts(VERDICTS, told)


def wrong_cells(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The cells of verdicts, as the store and the JSON of a report have them."""
    for row in rows:
        for cell in row.get("cells") or ():
            missing = cell.get("missing", [])
            explained = cell.get("explained", [])
            yield {
                **{name: cell.get(name) for name in ("partition", "server", "instance", "state")},
                **{name: row[name] for name in ("edge", "topic", "window")},
                "claimed": cell.get("claimed", 0),
                "observed": cell.get("observed", 0),
                "missing": cell.get("missing_count", 0),
                "duplicates": cell.get("duplicates", 0),
                "unclaimed": cell.get("unclaimed_count", 0),
                "explained": RangeSet.from_list(explained).size,
                "sequences": str(RangeSet.from_list(missing)),
                "reason": cell.get("reason", ""),
            }


def _ms(value: Any) -> int:
    """A time of a row in ms: a number is one, of the time types the instant."""
    if isinstance(value, int):
        return value
    stamp = pandas().Timestamp(value)
    if stamp is pandas().NaT:
        return -1
    aware = stamp.tz_localize("UTC") if stamp.tzinfo is None else stamp.tz_convert("UTC")
    return round(float(aware.timestamp()) * 1000)
