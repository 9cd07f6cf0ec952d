"""From what the catalog has to what answers show: with the text, which may have to be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tallymark_schema_registry import errors
from tallymark_schema_registry.decisions.by_id import Located
from tallymark_schema_registry.decisions.commands import Found, SchemaView, VersionView
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node.replica import Replica
from tallymark_schema_registry.node.texts import Texts


class Views:
    """Belongs to one event loop."""

    def __init__(self, replica: Replica, texts: Texts) -> None:
        self._replica = replica
        self._texts = texts

    async def of_reply(self, found: Found, text: str | None = None) -> VersionView:
        """The reply to a command. ``text`` is answered where the version was permanently deleted
        since; None: it is not there any more."""
        view = await self.of(found)
        if view is not None:
            return view
        if text is None:
            raise errors.version_not_found(found.version.version)
        return _view(found, text)

    async def found(self, find: Callable[[], Found]) -> VersionView:
        """What is found in the catalog once that is current; found again where it is permanently
        deleted meanwhile."""
        await self._replica.current()
        view = await self.of(find())
        if view is None:
            await self._replica.current()
            view = await self.of_reply(find())
        return view

    async def of(self, found: Found) -> VersionView | None:
        """The version with its text; None if it was permanently deleted since."""
        text = await self._texts.get((found.subject.context, found.schema.schema_id))
        return None if text is None else _view(found, text)

    async def of_all(self, found: Sequence[Found]) -> list[VersionView]:
        """Those of many, without those that were permanently deleted since; by one query."""
        await self._texts.all((one.subject.context, one.schema.schema_id) for one in found)
        views = [await self.of(one) for one in found]
        return [view for view in views if view is not None]

    async def located(self, locate: Callable[[], Located]) -> SchemaView:
        """A schema never changes, so it is answered at once. Another process may have registered
        or deleted it just now: the store is asked before it is said not to be there."""
        view = None
        try:
            view = await self._of_schema(locate())
        except RegistryError as error:
            if error.status != 404:
                raise
        if view is None:
            await self._replica.current()
            self._replica.check_up()
            view = await self._of_schema(locate())
        if view is None:
            raise errors.schema_not_found()
        return view

    async def _of_schema(self, located: Located) -> SchemaView | None:
        schema, found = located.schema, located.found
        text = await self._texts.get((located.context, schema.schema_id))
        if text is None:
            return None
        return SchemaView(
            located.context,
            schema.schema_id,
            schema.md5,
            schema.content(text),
            found.subject if found else None,
            found.version.version if found else None,
        )


def _view(found: Found, text: str) -> VersionView:
    entry, schema = found.version, found.schema
    return VersionView(
        found.subject,
        entry.version,
        schema.schema_id,
        schema.md5,
        schema.content(text),
        entry.at_ms,
        entry.by,
        entry.deleted,
    )
