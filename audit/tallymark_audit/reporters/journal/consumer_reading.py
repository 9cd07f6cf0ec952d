"""Read the journal of a consumer: replay its calls. Layout: :mod:`.consumer_layout`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.reporters.books.runs import TallyKey
from tallymark_audit.reporters.books.tally import ReporterIdentity
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.journal import consumer_layout as layout
from tallymark_audit.reporters.journal.consumer_layout import ConsumerKind
from tallymark_audit.reporters.journal.replay import BadJournalError, Books, Journaled, replay
from tallymark_audit.reporters.processing.processing import InFlightMark, Processing


def replayed(
    cluster: str, identity: ReporterIdentity, more: dict[str, Any], view: memoryview, position: int
) -> Journaled:
    """The books by the entries from ``position`` on. BadJournalError: they are damaged."""
    try:
        processing = Processing(identity, **more)
    except TypeError as error:
        raise BadJournalError(f"the identity makes no sense: {error!r}") from error
    books = _Calls(processing)
    replay(books, view, position)
    return Journaled(cluster, books.tally, processing, books.slots)


class _Calls(Books):
    """A processing under replay."""

    def __init__(self, processing: Processing) -> None:
        super().__init__(processing.books.tally)
        self.processing = processing
        self.slots: dict[TopicPartition, int] = {}

    def _forgotten(self, part: int) -> TallyKey:
        """The calls of a consumer make cells that no entry names, so they are looked up."""
        if part not in self.keys:
            self.keys = {cell.part: key for key, cell in self.tally.cells.items()}
        return self.keys.pop(part)

    def _handed_out(self, payload: bytes) -> None:
        place, run = layout.read_run(payload)
        self.processing.handed_out(place, [run])

    def _done(self, payload: bytes) -> None:
        place, offset, now = _place(payload)
        self.processing.done_before({place: offset}, now)

    def _message(self, payload: bytes) -> None:
        message, outcome, now = layout.read_message(payload)
        if outcome == layout.FETCHED:
            self.processing.fetched(message)
        else:
            self.processing.processed(message, Outcome(outcome), now)

    def _settled(self, payload: bytes) -> None:
        self.processing.settle(*layout.SETTLED_FIELDS.unpack(payload))

    def _released(self, payload: bytes) -> None:
        partition, done, last, now = layout.RELEASED_FIELDS.unpack_from(payload)
        place = payload[layout.RELEASED_FIELDS.size :].decode(), partition
        self.processing.released(place, InFlightMark(done, last), now)

    def _cut(self, payload: bytes) -> None:
        self.processing.truncated(*_place(payload))

    def _view(self, payload: bytes) -> None:
        partition, slot = layout.VIEW_FIELDS.unpack_from(payload)
        self.slots[payload[layout.VIEW_FIELDS.size :].decode(), partition] = slot

    def _held(self, payload: bytes) -> None:
        self.slots = layout.restore_held(payload, self.processing)

    _REPLAYS: ClassVar[dict[int, Callable[[Any, bytes], None]]] = {
        **Books._REPLAYS,
        ConsumerKind.HANDED_OUT: _handed_out,
        ConsumerKind.DONE: _done,
        ConsumerKind.MESSAGE: _message,
        ConsumerKind.SETTLED: _settled,
        ConsumerKind.RELEASED: _released,
        ConsumerKind.CUT: _cut,
        ConsumerKind.VIEW: _view,
        ConsumerKind.HELD: _held,
    }


def _place(payload: bytes) -> tuple[TopicPartition, int, int]:
    partition, offset, now = layout.DONE_FIELDS.unpack_from(payload)
    return (payload[layout.DONE_FIELDS.size :].decode(), partition), offset, now
