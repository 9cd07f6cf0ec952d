"""Where a collector's time goes, when the compiled loops count.

    python bench/collector.py --parts [--records 500000] [--rounds 7] [--json FILE]

The logs are those of ``bench/collector.py``. Each part of the work is timed where it is called,
without the parts that it calls itself; printed is the least processor time of the rounds, in
nanoseconds a record.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import collector
from support.measure import machine, table

from tallymark.protocol.records.compiled import kernel as records
from tallymark_audit.collector import ledger
from tallymark_audit.collector.counting import fetch_runs
from tallymark_audit.model.compiled_runs import cutter, kernel

_PARTS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("headers and CRCs of batches, in Python", collector.PreparedLog, "multifetch"),
    ("headers again, compiled; one buffer", fetch_runs.RunReader, "_find"),
    ("records to columns, compiled", records, "read_batches"),
    ("columns to runs, compiled", kernel, "cut_runs"),
    ("runs over the ends of batches, compiled", kernel, "join_runs"),
    ("hashes of contents, compiled", kernel, "hash_runs"),
    ("an object for each run", cutter.RunCutter, "_seen"),
    ("runs into cells", ledger, "count"),
    ("commits (SQLAlchemy, SQLite)", ledger.Ledger, "commit"),
    ("the rest", collector, "drain"),
)


class Parts:
    """``spent``: seconds by part."""

    def __init__(self) -> None:
        self.spent = {name: 0.0 for name, _, _ in _PARTS}
        self._inner: list[float] = []

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Time the parts."""
        with ExitStack() as stack:
            for name, owner, attribute in _PARTS:
                timed = self._timed(name, getattr(owner, attribute))
                stack.enter_context(patch.object(owner, attribute, timed))
            yield

    def _timed(self, name: str, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            begin = time.process_time()
            self._inner.append(0.0)
            try:
                return function(*args, **kwargs)
            finally:
                taken = time.process_time() - begin
                self.spent[name] += taken - self._inner.pop()
                if self._inner:
                    self._inner[-1] += taken

        return call


def measure(log: collector.PreparedLog, content: bool, rounds: int) -> dict[str, float]:
    """Nanoseconds a record, by part."""
    least: dict[str, float] = {}
    for _ in range(rounds):
        parts = Parts()
        with parts.timed():
            collector.rate(log, content_check=content)
        for name, taken in parts.spent.items():
            least[name] = min(taken / log.end * 1e9, least.get(name, taken * 1e9))
    return least


def report(records: int, rounds: int, written: Path | None) -> None:
    """Measure and print; the numbers also to the file ``written``."""
    if not cutter.warm():
        raise SystemExit("the loops are not compiled here; the log line above says why")
    many = collector.prepared(records, 64)
    mixed = collector.prepared(records, 64, mixed=True)
    single = collector.prepared(records // 10, batch=1)
    cases = {
        "64 producers": measure(many, False, rounds),
        "64 producers, content": measure(many, True, rounds),
        "mixed batches": measure(mixed, False, rounds),
        "one record a batch": measure(single, False, rounds),
    }
    print(machine())
    rows = [[name, *(f"{case[name]:,.0f}" for case in cases.values())] for name, _, _ in _PARTS]
    totals = ["together", *(f"{sum(case.values()):,.0f}" for case in cases.values())]
    print(table([["ns a record", *cases], *rows, totals]))
    if written:
        result = {"machine": machine(), "nanoseconds": cases}
        written.write_text(json.dumps(result, indent=2), encoding="utf-8")
