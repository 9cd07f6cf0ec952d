"""Records of the source's batches that go to the target in new batches: decoded, or as ranges of
bytes that compiled loops copy (extra ``fast``). Both make the same batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from tallymark.client.core.partition_layout import Layout
from tallymark.mirror.copying.recoding import recode
from tallymark.protocol.records.batch import Batch, Record
from tallymark.protocol.records.compiled import repartition
from tallymark.protocol.records.compiled.repartition import KeyedRecords

_MANY_RECORDS: Final = 50_000
"""So many are written anew by the pure path, in 0.2 s, before the loops are loaded: a mirror that
copies whole batches needs no 140 MB for them."""


class Gathered(Protocol):
    """Some records of one partition of the source, in their order."""

    @property
    def offsets(self) -> Sequence[int]:
        """Their offsets in the source."""
        ...

    @property
    def oldest(self) -> int:
        """The least of their timestamps, ms. There must be a record."""
        ...

    def batches(
        self, layout: Layout, source_partition: int, codec: str
    ) -> Iterable[tuple[int, Batch]]:
        """(partition of the target, its batch); the records of a partition keep their order."""
        ...


class DecodedRecords:
    """Records that were decoded."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.records]

    @property
    def oldest(self) -> int:
        return min(record.timestamp for record in self.records)

    def batches(
        self, layout: Layout, source_partition: int, codec: str
    ) -> Iterator[tuple[int, Batch]]:
        return recode(self.records, layout, source_partition, codec)


class CopiedRecords:
    """Records whose positions are known. They are those of the ``batches``."""

    def __init__(self, keyed: KeyedRecords, batches: Sequence[Batch], since: int) -> None:
        self.offsets = keyed.offsets
        self._keyed = keyed
        self._batches = batches
        self._since = since

    @property
    def oldest(self) -> int:
        return self._keyed.oldest

    def batches(
        self, layout: Layout, source_partition: int, codec: str
    ) -> Iterable[tuple[int, Batch]]:
        if layout.keeps:
            made = self._keyed.batches(1, 0, codec)
            if made is not None:
                return [(source_partition, batch) for _, batch in made]
        else:
            keyless = source_partition % layout.partitions
            made = self._keyed.batches(layout.partitions, keyless, codec)
            if made is not None:
                return made
        return recode(self._decoded(), layout, source_partition, codec)

    def _decoded(self) -> list[Record]:
        """Those that must be written anew: they were read before, so they are whole."""
        found = [record for batch in self._batches for record in batch.records()]
        return [record for record in found if record.offset >= self._since]


class LoopsOnDemand:
    """Loads the compiled loops, in the background, once many records had to be written to new
    batches."""

    def __init__(self) -> None:
        self._count = 0

    def note(self, count: int) -> None:
        """So many records more."""
        before, self._count = self._count, self._count + count
        if before < _MANY_RECORDS <= self._count:
            repartition.warm()
