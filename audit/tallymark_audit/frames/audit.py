"""What the audit store holds, as frames. Reads the store alone, never a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from sqlalchemy import func, select

from tallymark.closing import ClosedByWith
from tallymark.deployment import Deployment, load
from tallymark.errors import UserError
from tallymark_audit.frames.columns import Moment, frame_of, frame_of_dicts, ms_of
from tallymark_audit.frames.reports import CELLS, VERDICTS, wrong_cells
from tallymark_audit.model import sketches
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted.totals import DAY, HOUR, MINUTES_10, WINDOW, totals_of
from tallymark_audit.store.judged.verdicts import effective
from tallymark_audit.store.reading import paging, queries
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import lateness, verdicts, watermarks

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_WINDOWS: Final = 1_000_000
"""Windows in one frame; a period with more is refused."""
MOST_CELLS: Final = 1_000_000
WINDOWS_AT_ONCE: Final = 200
FOREVER: Final = (1 << 62) - 1
SPANS: Final = {"10min": MINUTES_10, "1h": HOUR, "1d": DAY, "window": WINDOW}
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
Tier = Literal["producer", "cluster", "consumer", "lake"]


def open_audit(source: Deployment | Store | str | Path | None = None) -> AuditFrames:
    """Open an audit store: of a deployment, of its settings file (without one, of the settings that
    are in force here), or of an address such as ``postgresql+psycopg://USER@HOST/NAME``. A store
    that is given stays the giver's to close."""
    if isinstance(source, Store):
        return AuditFrames(source, owned=False)
    if isinstance(source, str) and "://" in source:
        return AuditFrames(open_store(source))
    deployment = source if isinstance(source, Deployment) else load(source)
    return AuditFrames(open_store(deployment.audit_store))


class AuditFrames(ClosedByWith):
    """The store as frames. Periods are from ``start`` (included) to ``end`` (excluded), of event
    time; what is left out is not limited. Use ``with``, or close it."""

    def __init__(self, store: Store, owned: bool = True) -> None:
        self.store = store
        self._owned = owned

    def close(self) -> None:
        """Close the store, if it was opened here."""
        if self._owned:
            self.store.close()

    def verdicts(
        self,
        edge: str | None = None,
        topic: str | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
    ) -> DataFrame:
        """The verdicts that hold, a row a window, the earliest first: edge, topic, window, source,
        state, claimed, observed, missing, duplicates, unclaimed, explained (messages), judged_at,
        accepted_by, reasons. UserError: more than a million windows."""
        columns = [verdicts.c[name] for name in VERDICTS]
        query = select(*columns).where(effective(), *_within(verdicts, edge, topic, start, end))
        order = (verdicts.c.window, verdicts.c.edge, verdicts.c.topic)
        with self.store.read() as connection:
            rows = connection.execute(query.order_by(*order).limit(MOST_WINDOWS + 1)).all()
        if len(rows) > MOST_WINDOWS:
            raise UserError(
                f"there are more than {MOST_WINDOWS:,} windows", "give an edge, a topic or a period"
            )
        return frame_of(VERDICTS, rows)

    def findings(
        self,
        edge: str | None = None,
        topic: str | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
    ) -> DataFrame:
        """The cells that are not simply complete, a row a cell of a verdict: edge, topic, window,
        partition, server, instance, state, the same counts, sequences (what is missing), reason."""
        with self.store.read() as connection:
            rows = queries.windows(
                connection, edge, topic, ms_of(start), ms_of(end), limit=MOST_WINDOWS
            )
        return frame_of_dicts(CELLS, wrong_cells(reversed(rows)))

    def cells(
        self,
        cluster: str,
        topic: str,
        start: Moment | None = None,
        end: Moment | None = None,
        tier: Tier = "cluster",
    ) -> DataFrame:
        """What was counted on a cluster, or reported to it, a row a cell and partition or reporter:
        window, partition, server, instance, messages (each once), copies, bytes, first_offset,
        last_offset (-1 where they are not known), min_timestamp, max_timestamp, p50, p99 (ms from
        stamp to here). UserError: more than a million cells."""
        low, high = ms_of(start), ms_of(end)
        rows: list[Row] = []
        with self.store.read() as connection:
            windows = paging.cell_windows(
                connection,
                cluster,
                topic,
                tier,
                -FOREVER if low is None else low,
                FOREVER if high is None else high,
                MOST_WINDOWS,
            )
            for at in range(0, len(windows), WINDOWS_AT_ONCE):
                some = windows[at : at + WINDOWS_AT_ONCE]
                rows += paging.cells(connection, cluster, topic, tier, some)
                if len(rows) > MOST_CELLS:
                    raise UserError(
                        f"there are more than {MOST_CELLS:,} cells", "narrow the period"
                    )
        return frame_of_dicts(_COUNTED, map(_counted, rows))

    def latency(
        self,
        topic: str,
        start: Moment | None = None,
        end: Moment | None = None,
        by: Literal["window", "10min", "1h", "1d"] = "1h",
    ) -> DataFrame:
        """How long messages took, a row a cluster, tier and span of event time: messages, bytes and
        quantiles of ms from stamp to acknowledgement (tier ``producer``), to being read
        (``cluster``), processed (``group:NAME``) or loaded (``lake``), right to 2 %."""
        if by not in SPANS:
            raise UserError(f"by={by!r}", f"give one of {', '.join(SPANS)}")
        low, high = ms_of(start), ms_of(end)
        with self.store.read() as connection:
            known = _period(connection, topic)
            low = known[0] if low is None else low
            high = known[1] if high is None else high
            found = totals_of(connection, topic, low, high, SPANS[by] or 1)
        columns = ("cluster", "tier", "topic", "start", "messages", "bytes", *QUANTILES)
        return frame_of(
            columns,
            (
                (
                    one.cluster,
                    one.tier,
                    topic,
                    one.start,
                    one.messages,
                    one.bytes,
                    *_quantiles(one.latency),
                )
                for one in found
            ),
        )

    def lateness(self, topic: str | None = None) -> DataFrame:
        """How late records came to the counters that judge, a row a counter (a cluster, or the edge
        of a group), topic and day: records and quantiles of ms. The settle time of a window is the
        99.9 % quantile of the last week."""
        query = select(lateness).order_by(lateness.c.edge, lateness.c.topic, lateness.c.day)
        if topic is not None:
            query = query.where(lateness.c.topic == topic)
        with self.store.read() as connection:
            rows = connection.execute(query).all()
        return frame_of(
            ("counter", "topic", "day", "records", *QUANTILES),
            (
                (row.edge, row.topic, row.day, sum(row.sketch[1::2]), *_quantiles(row.sketch))
                for row in rows
            ),
        )

    def watermarks(self) -> DataFrame:
        """Through when each topic is complete on each edge: edge, topic, through, and how many
        windows without an acceptance hold it (holes)."""
        query = select(watermarks).order_by(watermarks.c.edge, watermarks.c.topic)
        with self.store.read() as connection:
            rows = connection.execute(query).all()
        return frame_of(
            ("edge", "topic", "through", "holes"),
            (
                (row.edge, row.topic, row.through, sum(not hole[2] for hole in row.holes))
                for row in rows
            ),
        )


_COUNTED: Final = (
    "window",
    "partition",
    "server",
    "instance",
    "reporter",
    "messages",
    "copies",
    "bytes",
    "first_offset",
    "last_offset",
    "min_timestamp",
    "max_timestamp",
    "p50",
    "p99",
)


def _counted(row: Row) -> Row:
    """A row of observations or of claims in the columns of a frame."""
    claimed = "acknowledged" in row
    flat = (
        (row["accepted"] if row["acks"] == 0 else row["acknowledged"]) if claimed else row["ranges"]
    )
    named = RangeSet.from_list(flat).size
    if claimed:
        bare = row["unstamped"] + (row["summary"][1] if row["summary"] else 0)
        messages, copies = named + bare, row["duplicates"]
    else:
        unnamed = not row["instance"] or row["fingerprint"]
        messages = row["count"] if unnamed else named
        copies = row["count"] - messages
    sketch = sketches.from_store(row["latency"])
    return {
        "first_offset": -1,
        "last_offset": -1,
        "reporter": "",
        **row,
        "messages": messages,
        "copies": copies,
        "p50": sketches.quantile(sketch, 0.5),
        "p99": sketches.quantile(sketch, 0.99),
    }


def _quantiles(flat: Iterable[int]) -> tuple[float | None, ...]:
    sketch = sketches.from_store(tuple(flat))
    return tuple(sketches.quantile(sketch, share) for share in QUANTILES.values())


def _within(
    table: Any,
    edge: str | None,
    topic: str | None,
    start: Moment | None,
    end: Moment | None,
) -> Iterator[Any]:
    if edge is not None:
        yield table.c.edge == edge
    if topic is not None:
        yield table.c.topic == topic
    if (low := ms_of(start)) is not None:
        yield table.c.window >= low
    if (high := ms_of(end)) is not None:
        yield table.c.window < high


def _period(connection: Any, topic: str) -> tuple[int, int]:
    """From the first to behind the last window of the topic of which anything was judged."""
    query = select(func.min(verdicts.c.window), func.max(verdicts.c.window)).where(
        verdicts.c.topic == topic, verdicts.c.window >= 0
    )
    first, last = connection.execute(query).one()
    return (0, 0) if first is None else (first - first % DAY, last - last % DAY + DAY)
