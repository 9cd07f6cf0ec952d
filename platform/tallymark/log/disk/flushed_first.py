"""Which logs are flushed before others hear of their records (``flush.before.expose``), and have
been since all that they had was flushed: a power failure takes nothing from them that was reported.

``flushed-first-checkpoint``, in Kafka's checkpoint format, in each data directory::

    0
    1
    orders 0 4611686018427387904      topic, partition, the first 63 bits of the topic id

A log comes into the file some seconds after the setting, which costs nothing but a claim. It goes
durably *before* it is flushed later than it is reported. A log of an earlier topic of the same name
has another topic id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from tallymark.errors import KafkaError
from tallymark.log.disk.data_dir import DataDir
from tallymark.log.disk.health import guarded
from tallymark.log.disk.partition_folder import LogKey


class FlushedFirst:
    """``dirs``, ``homes`` (the directory of each log) and ``topic_ids`` belong to the log manager,
    which changes them. Any thread may call the methods."""

    def __init__(
        self,
        dirs: Sequence[DataDir],
        homes: Mapping[LogKey, DataDir],
        topic_ids: Mapping[LogKey, UUID],
    ) -> None:
        self._dirs = dirs
        self._homes = homes
        self._topic_ids = topic_ids

    def holds(self, key: LogKey) -> bool:
        """Whether it is noted of the log."""
        home, known = self._homes.get(key), self._token(key)
        return home is not None and known > 0 and home.flushed_first.get(key) == known

    def note(self, key: LogKey) -> None:
        """All of the log is flushed, and it is flushed first from now on; on the disk after
        :meth:`save`."""
        home, known = self._homes.get(key), self._token(key)
        if home is not None and known > 0:
            home.flushed_first.put(key, known)

    def revoke(self, keys: Iterable[LogKey]) -> None:
        """These are not flushed first any more; on the disk on return. Costs nothing where it was
        not noted. A disk that fails is offline then: nothing is reported of its logs."""
        touched: set[DataDir] = set()
        for key in keys:
            home = self._homes.get(key)
            if home is not None and home.flushed_first.get(key):
                home.flushed_first.drop(key)
                touched.add(home)
        for home in touched:
            with suppress(KafkaError), guarded(home.health, f"checkpoint {home.path}"):
                home.flushed_first.save()

    def save(self) -> None:
        """Write what was noted. A disk that fails is offline then."""
        for home in tuple(self._dirs):
            if home.health.error is None:
                with suppress(KafkaError), guarded(home.health, f"checkpoint {home.path}"):
                    home.flushed_first.save()

    def _token(self, key: LogKey) -> int:
        """0 where the topic id is not known."""
        found = self._topic_ids.get(key)
        return 0 if found is None else found.int >> 65
