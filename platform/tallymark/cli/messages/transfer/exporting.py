"""The run of an export: plan, or continue an earlier one; read, write, count, rename."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from tallymark.cli.messages.reading.reader import Stopped, read_pieces
from tallymark.cli.messages.reading.spans import Span
from tallymark.cli.messages.transfer.open_file import Format, create, go_on, reading
from tallymark.cli.messages.transfer.plan import Exported, ExportWriter, Plan, Totals
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.clock import now_ms
from tallymark.errors import UserError
from tallymark.shell.progress import Meter

_FLUSH_S: Final = 1.0
"""So much of the work a kill undoes."""


class Export:
    """One run that ends in ``path``; until then it is ``path`` with ``.partial`` behind it."""

    def __init__(self, path: Path, form: Format) -> None:
        self.path = path
        self.partial = path.with_name(path.name + ".partial")
        self.totals = Totals({}, {})
        self._form: Format = form
        if path.exists():
            raise UserError(f"{path} is there already", "remove it, or name another file")

    def begin(self, consumer: SimpleConsumer, topic: str, spans: Sequence[Span]) -> ExportWriter:
        """A new file of these spans. UserError when one was begun and not ended."""
        if self.partial.exists():
            raise UserError(
                f"an earlier export to {self.path} did not end",
                f"go on with --resume, or remove {self.partial}",
            )
        info = consumer.topics()[topic]
        ends = {span.partition: (span.position, span.end or span.position) for span in spans}
        plan = Plan(topic, str(info.topic_id), consumer.cluster_id or "", now_ms(), ends)
        self.totals = Totals.start(ends)
        return create(self.partial, self._form, plan)

    def resume(self, consumer: SimpleConsumer, topic: str) -> tuple[ExportWriter, list[Span]]:
        """The earlier file, and what is still to come by its own plan. UserError when there is
        none, or it is of another topic."""
        if not self.partial.exists():
            raise UserError(f"there is no {self.partial} to go on with", "leave out --resume")
        with reading(self.partial) as reader:
            plan = reader.plan
            totals = Totals.start(plan.partitions)
            positions = {number: first for number, (first, _) in plan.partitions.items()}
            for record in reader.records():
                totals.add(record)
                positions[record.partition] = record.offset + 1
            size = reader.intact
        info = consumer.topics().get(topic)
        if plan.topic != topic or info is None or str(info.topic_id) != plan.topic_id:
            raise UserError(
                f"{self.partial} is of another topic: {plan.topic}, id {plan.topic_id}",
                f"remove it to export {topic}",
            )
        self.totals = totals
        spans = [
            Span(topic, number, positions[number], end)
            for number, (_, end) in plan.partitions.items()
        ]
        return go_on(self.partial, self._form, size), spans

    def run(
        self,
        consumer: SimpleConsumer,
        writer: ExportWriter,
        spans: Sequence[Span],
        stop: Stopped,
        meter: Meter,
    ) -> bool:
        """Write all records of the spans; whether it came to the end. The file has its name then.
        Until then what is there can be gone on with, also after a kill."""
        total = sum(span.left for span in spans)
        flushed = time.monotonic()
        with closing(writer):
            for piece in read_pieces(consumer, spans, stop):
                if piece is not None:
                    for record in piece.records:
                        exported = Exported(piece.span.partition, *record[:5])
                        writer.write(exported)
                        self.totals.add(exported)
                if time.monotonic() - flushed > _FLUSH_S:
                    writer.flush()
                    flushed = time.monotonic()
                meter.tick(lambda: (total - sum(s.left for s in spans), self._text()))
            if not all(span.done for span in spans):
                writer.flush()
                return False
            writer.finish(self.totals)
        os.rename(self.partial, self.path)
        _sync_folder(self.path.parent)
        return True

    def _text(self) -> str:
        return f"{sum(self.totals.counts.values()):,} records"


def _sync_folder(folder: Path) -> None:
    """A rename is on the disk when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
