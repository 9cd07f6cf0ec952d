"""Texts of schemas by id: read from the store where memory does not have them.

Requests that miss the same ids at once share one query, and what comes while a query runs is asked
for by the next one, together.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from typing import Final

from tallymark_schema_registry import errors
from tallymark_schema_registry.bounded_cache import BoundedCache
from tallymark_schema_registry.catalog.records import SchemaRemoved
from tallymark_schema_registry.node.replica import Replica, Store
from tallymark_schema_registry.store.changes import Change, StoreFailed

CAPACITY: Final = 32 << 20
"""Characters of texts that are kept."""

Place = tuple[str, int]
"""Context and id."""


class Texts:
    """Belongs to one event loop. A text never changes, but an import may bring another one under an
    id whose schema was permanently deleted."""

    def __init__(self, replica: Replica, store: Store, threads: Executor) -> None:
        self._replica = replica
        self._store = store
        self._threads = threads
        self._held: BoundedCache[Place, str] = BoundedCache(CAPACITY, largest=CAPACITY // 8)
        self._asked: dict[Place, asyncio.Future[str | None]] = {}
        self._wanted: dict[Place, asyncio.Future[str | None]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._removals = 0
        replica.on_change(self._forget)

    def keep(self, place: Place, text: str) -> None:
        """A text that was just stored."""
        self._held.put(place, text, text)

    async def get(self, place: Place) -> str | None:
        """The text of a schema that the catalog has; None if it was permanently deleted since.
        Raises the 503 error where memory does not have it and the store cannot be asked."""
        found = self._held.get(place)
        return found if found is not None else await asyncio.shield(self._ask(place))

    async def all(self, places: Iterable[Place]) -> dict[Place, str]:
        """The texts of many, by one query; those that were deleted since are missing."""
        texts = dict[Place, str]()
        missing = dict[Place, asyncio.Future[str | None]]()
        for place in places:
            found = self._held.get(place)
            if found is None:
                missing[place] = self._ask(place)
            else:
                texts[place] = found
        if missing:
            await asyncio.wait(missing.values())
        for place, answer in missing.items():
            text = answer.result()
            if text is not None:
                texts[place] = text
        return texts

    def _ask(self, place: Place) -> asyncio.Future[str | None]:
        """Several may wait for the future: it must not be cancelled with one of them."""
        there = self._wanted.get(place) or self._asked.get(place)
        if there is None:
            there = self._wanted[place] = asyncio.get_running_loop().create_future()
            if self._reading is None:
                self._reading = asyncio.create_task(self._read())
        return there

    async def _read(self) -> None:
        try:
            while self._wanted:
                self._asked, self._wanted = self._wanted, {}
                await self._read_asked()
        finally:
            self._reading = None

    async def _read_asked(self) -> None:
        ids = defaultdict[str, list[int]](list)
        for context, schema_id in self._asked:
            ids[context].append(schema_id)
        loop = asyncio.get_running_loop()
        for context, some in ids.items():
            before = self._removals
            try:
                found = await loop.run_in_executor(self._threads, self._store.texts, context, some)
            except StoreFailed as error:
                self._replica.went_down(error)
                self._answer_all(context, some, errors.store_failed())
            except Exception as error:
                self._answer_all(context, some, error)
            else:
                # What was removed meanwhile may have been read before or after: it is found anew.
                is_sure = before == self._removals
                self._answer_all(context, some, found if is_sure else {})
        self._asked = {}

    def _forget(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if isinstance(change.record, SchemaRemoved):
                self._removals += 1
                self._held.drop((change.record.context, change.record.schema_id))

    def _answer_all(self, context: str, ids: list[int], found: dict[int, str] | Exception) -> None:
        for schema_id in ids:
            place = context, schema_id
            answer = self._asked[place]
            if answer.done():
                continue
            if isinstance(found, Exception):
                answer.set_exception(found)
                answer.exception()  # the request may have been cancelled
                continue
            text = found.get(schema_id)
            if text is not None:
                self._held.put(place, text, text)
            answer.set_result(text)
