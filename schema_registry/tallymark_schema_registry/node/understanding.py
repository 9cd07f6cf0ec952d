"""What only texts show: canonical texts, whether two schemas are the same, which are compatible.

Answers the questions of decisions (:class:`Parse`, :class:`Compare`). What it needs of the catalog
is taken at once, before anything is waited for; the work is done by :mod:`.workers`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from tallymark_schema_registry import errors
from tallymark_schema_registry.bounded_cache import BoundedCache
from tallymark_schema_registry.catalog.content import AVRO, Reference, java_order
from tallymark_schema_registry.catalog.records import SchemaRemoved
from tallymark_schema_registry.decisions.commands import (
    Checked,
    Compare,
    Conflict,
    Parse,
    Parsed,
)
from tallymark_schema_registry.levels import findings
from tallymark_schema_registry.node.replica import Replica
from tallymark_schema_registry.node.stored_schemas import (
    PARSED,
    ParsedSchemas,
    Place,
    StoredSchemas,
    direct,
    reached,
)
from tallymark_schema_registry.node.texts import Texts
from tallymark_schema_registry.node.workers import Workers
from tallymark_schema_registry.schemas import (
    LIGHT,
    Budget,
    Change,
    InvalidSchemaError,
    Schema,
    TooLargeError,
    canonical_text,
    diff,
    doubts,
    normalized,
    parse_schema,
    resolved_text,
)
from tallymark_schema_registry.schemas.budget import FULL
from tallymark_schema_registry.store.changes import Change as StoredChange

SENT: Final = 8 << 20
"""Characters of sent texts whose canonical texts are kept: producers send the same few at every
start."""
SMALL: Final = 8_192
"""Characters of a text that is parsed on the event loop."""
FEW: Final = 2
"""Versions that are compared there."""
VERSION: Final = 2_000
"""Steps that are allowed for each version which a new schema is compared with, beyond those of the
schema itself: one of 80 fields is parsed and compared in both directions."""


class Understanding:
    """Belongs to one event loop."""

    def __init__(self, replica: Replica, texts: Texts, workers: Workers) -> None:
        self._replica = replica
        self._texts = texts
        self._workers = workers
        self._parsed: ParsedSchemas = BoundedCache(PARSED, PARSED // 8)
        self._sent: BoundedCache[Parse, Parsed] = BoundedCache(SENT, SENT // 8)
        self._schemas: BoundedCache[Parse, Schema] = BoundedCache(PARSED // 4, PARSED // 16)
        replica.on_change(self._forget)

    async def parse(self, question: Parse, client: str = "") -> Parsed:
        """The canonical text. Raises the 42201 error where the text cannot be read at all."""
        found = self._sent.get(question)
        if found is not None:
            return found
        own = _own(question)
        places = (*question.closure, *((own,) if own else ()))
        stored, references = await self._stored(places, question)
        if own:
            # It is canonical, or was imported as it is.
            text = stored.texts.get(own)
            if text is None:
                raise errors.schema_not_found()
            if not question.normalize:
                return Parsed(question, text, question.references)
        else:
            assert question.text is not None
            text = question.text

        def work(budget: Budget) -> tuple[Parsed, Schema]:
            return _parse(
                question, text, [stored.get(place, budget) for place in references], budget
            )

        is_small = len(text) <= SMALL and len(places) <= FEW
        parsed, schema = await self._workers.run(client, work, is_small=is_small)
        self._sent.put(question, parsed, text + parsed.text)
        self._schemas.put(question, schema, range(schema.size))
        return parsed

    async def compare(
        self, question: Compare, parsed: Parsed, client: str = "", *, every: bool = False
    ) -> Checked:
        """``parsed`` is what is compared. ``every``: all versions that conflict are named, not the
        newest alone."""
        ids = [*question.same, *(schema_id for _, schema_id in question.earlier)]
        new = parsed.question
        places = dict.fromkeys([(question.context, schema_id) for schema_id in ids])
        stored, references = await self._stored((*new.closure, *places), new)
        schema = self._schemas.get(new)

        def work(budget: Budget) -> Checked:
            mine = schema or parse_schema(
                parsed.text, budget, [stored.get(place, budget) for place in references], True
            )
            return _compare(question, mine, stored, budget, every)

        count = len(places) + len(new.closure)
        is_small = len(parsed.text) <= SMALL and count <= FEW
        steps = min(FULL + VERSION * count, 3 * FULL)
        return await self._workers.run(client, work, is_small=is_small, steps=steps)

    def keep(self, place: Place, question: Parse, text: str) -> None:
        """The answer to ``question`` has been stored: the next version is compared with it."""
        schema = self._schemas.get(question)
        if schema is not None:
            self._parsed.put((place, text), schema, range(schema.size))

    async def changed(self, question: Parse, place: Place, client: str = "") -> list[Change]:
        """What is different in the schema of a question, against one of the catalog; nothing where
        that one cannot be read."""
        parsed = await self.parse(question, client)
        stored, references = await self._stored((*question.closure, place), question)
        schema = self._schemas.get(question)

        def work(budget: Budget) -> list[Change]:
            mine = schema or parse_schema(
                parsed.text, budget, [stored.get(one, budget) for one in references], True
            )
            try:
                return diff(stored.get(place, budget), mine, budget)
            except InvalidSchemaError:
                return []

        return await self._workers.run(client, work)

    async def written_out(self, place: Place, client: str = "") -> str:
        """The text of a schema of the catalog, with the types of its references written out."""
        schema = self._replica.catalog.schema(*place)
        stored, _ = await self._stored([place])
        if schema is None or place not in stored.texts:
            raise errors.schema_not_found(place[1])
        if not schema.references or schema.kind != AVRO:
            return stored.texts[place]

        def work(budget: Budget) -> str:
            return resolved_text(stored.get(place, budget), budget)

        try:
            return await self._workers.run(client, work)
        except InvalidSchemaError as error:
            raise errors.invalid_schema(str(error)) from error

    def _forget(self, changes: Sequence[StoredChange]) -> None:
        """An import may bring other schemas under the ids and versions that were removed."""
        if any(isinstance(change.record, SchemaRemoved) for change in changes):
            self._sent.clear()
            self._schemas.clear()

    async def _stored(
        self, places: Iterable[Place], question: Parse | None = None
    ) -> tuple[StoredSchemas, tuple[Place, ...]]:
        """The schemas at ``places``, and what those of ``question``'s references are."""
        catalog = self._replica.catalog
        references = direct(catalog, question.context, question.references) if question else ()
        refers = reached(catalog, places)
        texts = await self._texts.all(refers)
        return StoredSchemas(refers, texts, self._parsed), references


def _own(question: Parse) -> Place | None:
    """The stored schema that is meant, where no text was sent."""
    if question.text is not None or question.same_as is None:
        return None
    return question.context, question.same_as


def _parse(
    question: Parse, text: str, references: list[Schema], budget: Budget
) -> tuple[Parsed, Schema]:
    fault = ""
    is_stored = question.text is None
    try:
        try:
            schema = parse_schema(text, budget, references, is_stored)
        except InvalidSchemaError as error:
            # It may be a version that is there, from a time or a server with other rules.
            fault = str(error)
            schema = parse_schema(text, budget, references, stored=True)
        if not question.normalize:
            canonical = canonical_text(schema, budget)
            return Parsed(question, canonical, question.references, fault, _doubted(schema)), schema
        schema = normalized(schema, budget)
        ordered = tuple(sorted(dict.fromkeys(question.references), key=_order))
        text = canonical_text(schema, budget)
        return Parsed(question, text, ordered, fault, _doubted(schema)), schema
    except InvalidSchemaError as error:
        raise errors.invalid_schema(fault or str(error)) from error


def _doubted(schema: Schema) -> tuple[str, ...]:
    """With a budget of its own: a warning is not worth a refusal."""
    try:
        return tuple(item.message() for item in doubts(schema, Budget(LIGHT)))
    except TooLargeError:
        return ()


def _order(reference: Reference) -> tuple[bytes, int, str]:
    return java_order(reference.subject), reference.version, reference.name


def _compare(
    question: Compare, mine: Schema, stored: StoredSchemas, budget: Budget, every: bool
) -> Checked:
    if question.same:
        text = resolved_text(mine, budget)
        for schema_id in question.same:
            if _is_same(text, stored, (question.context, schema_id), budget):
                return Checked(question, same=schema_id)
    conflicts = list[Conflict]()
    known = dict[int, tuple[str, ...]]()
    warnings = dict[str, None]()
    for version, schema_id in question.earlier:
        place = question.context, schema_id
        if schema_id not in known:
            theirs = _earlier(version, stored, place, budget)
            found = findings(
                question.level, mine, theirs, budget, logical=question.logical, warn=every
            )
            known[schema_id] = tuple(item.message() for item in found if item.refuses)
            warnings.update((item.message(), None) for item in found if not item.refuses)
            time.sleep(0)  # the event loop's turn: a comparison with 500 versions takes long
        if known[schema_id]:
            conflicts.append(Conflict(version, known[schema_id], stored.texts[place]))
            if not every:
                break
    return Checked(question, None, tuple(conflicts), tuple(warnings))


def _is_same(text: str, stored: StoredSchemas, place: Place, budget: Budget) -> bool:
    try:
        return resolved_text(stored.get(place, budget), budget) == text
    except InvalidSchemaError:  # of another type, or written out too deep: not this one
        return False


def _earlier(version: int, stored: StoredSchemas, place: Place, budget: Budget) -> Schema:
    try:
        return stored.get(place, budget)
    except InvalidSchemaError as error:
        raise errors.invalid_schema(
            f"version {version} of the subject cannot be compared with: {error}"
        ) from error
