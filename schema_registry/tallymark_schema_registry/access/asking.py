"""How one principal asks the registry: what it may not see is answered as what is not there.

A request about a hidden subject is made about one that cannot be there instead, and its own name is
put into the error. So the answer, and the way to it, are exactly those of a missing subject,
whatever the registry answers to that; and whether the hidden one is there changes nothing. The same
holds for ids.

Rights go by the name in the request and, where that is an alias, by the subject that is meant: both
must be allowed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tallymark_schema_registry import errors
from tallymark_schema_registry.access.grants import Principal, Right
from tallymark_schema_registry.access.visible import Visible
from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.content import Reference
from tallymark_schema_registry.catalog.subject import GLOBAL, Subject
from tallymark_schema_registry.decisions.references import not_there
from tallymark_schema_registry.decisions.scope import followed
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node.registry import Registry

Found = TypeVar("Found")

NO_NAME: Final = "\0"
"""The name of no subject: names are printable."""
NO_CONTEXT: Final = ".\0"
NO_ID: Final = (1 << 32) - 1
"""Ids have 31 bits."""
WITHHELD: Final = "the reasons quote schemas that may not be read, so they are not shown"


class Asking(Registry):
    """The registry as one principal may ask it. Subclasses say what each request needs."""

    def __init__(self, registry: Registry, principal: Principal) -> None:
        self._registry = registry
        self._principal = principal

    @property
    def _visible(self) -> Visible:
        return Visible(self._registry.catalog, self._principal)

    async def start(self) -> None:
        """Not for those who make requests."""
        raise AssertionError("the process starts the registry")

    async def close(self) -> None:
        """Not for those who make requests."""
        raise AssertionError("the process closes the registry")

    async def ping(self) -> None:
        """For everybody."""
        await self._registry.ping()

    @property
    def catalog(self) -> Catalog:  # type: ignore[override]
        """Not for those who make requests: it is not filtered."""
        raise AssertionError("a request asks for what it needs, not for the catalog")

    # --- reading

    def _target(self, subject: Subject, alias: bool = True) -> Subject:
        """The subject that is meant."""
        return followed(self._registry.catalog, subject) if alias else subject

    def _sees(self, subject: Subject, alias: bool = True) -> bool:
        visible = self._visible
        return visible.subject(subject) and visible.subject(self._target(subject, alias))

    async def _read(
        self, subject: Subject, ask: Callable[[Subject], Awaitable[Found]], alias: bool = True
    ) -> Found:
        """What ``ask`` answers about the subject. ``alias``: it follows aliases. They may change
        while it waits, so the right is checked afterwards, too."""
        if self._sees(subject, alias):
            try:
                found = await ask(subject)
            except RegistryError:
                if self._sees(subject, alias):
                    raise
            else:
                if self._sees(subject, alias):
                    return found
        return await self._as_missing(subject, ask)

    async def _as_missing(
        self, subject: Subject, ask: Callable[[Subject], Awaitable[Found]]
    ) -> Found:
        """What ``ask`` answers about a subject that is not there. Errors name what an alias means,
        whose name is no secret to those who may read the alias."""
        if self._visible.subject(subject):
            subject = self._target(subject)
        nobody = self._missing(subject)
        with_name = {nobody.qualified: subject.qualified, nobody.context: subject.context}
        return await _renamed(ask(nobody), with_name)

    def _missing(self, subject: Subject) -> Subject:
        """A subject that is not there, in the same context if that may be known."""
        known = self._principal.grants.reach(subject.context)
        return Subject(
            subject.context if known else NO_CONTEXT, NO_NAME if subject.name else subject.name
        )

    def _hint(self, subject: Subject | None) -> Subject | None:
        """A subject that a client gives only to say where it saw an id."""
        return subject if subject is None or self._sees(subject) else self._missing(subject)

    # --- writing

    async def _demand(self, right: Right, subject: Subject, *, alias: bool = True) -> None:
        """Raises the 40301 error where the right is not given, be the subject there or not."""
        if alias:
            await self._current()
        for name in (subject, self._target(subject, alias)):
            if not self._principal.may(right, name):
                raise errors.forbidden(self._principal.name, right, subject.qualified)

    async def _change(
        self,
        right: Right,
        subject: Subject,
        ask: Callable[[Subject], Awaitable[Found]],
        *,
        alias: bool = True,
    ) -> Found:
        """What ``ask`` does to a subject that has to be there."""
        if not self._sees(subject, alias):
            return await self._as_missing(subject, ask)
        await self._demand(right, subject, alias=alias)
        return await ask(subject)

    async def _current(self) -> None:
        """An alias that another process has set is known afterwards."""
        await self._registry.mode(GLOBAL, default_to_global=True)

    def _check_references(self, subject: Subject, references: tuple[Reference, ...]) -> None:
        """Raises the error about a reference to something missing where one names, or reaches, what
        may not be read. ``subject``: whose schema refers to it."""
        context = self._target(subject).context
        for reference in references:
            if not self._visible.reference(context, reference):
                raise not_there(reference)


async def as_missing_id(schema_id: int, ask: Callable[[int], Awaitable[Found]]) -> Found:
    """What ``ask`` answers about an id that was never given."""
    return await _renamed(ask(NO_ID), {str(NO_ID): str(schema_id)})


async def as_missing_guid(guid: str, ask: Callable[[str], Awaitable[Found]]) -> Found:
    """What ``ask`` answers about a guid that no schema has."""
    return await _renamed(ask(_NO_GUID), {_NO_GUID: guid})


async def _renamed(answer: Awaitable[Found], names: dict[str, str]) -> Found:
    """``answer``; other names in its error."""
    try:
        return await answer
    except RegistryError as error:
        message = error.message
        for name, instead in names.items():
            message = message.replace(name, instead)
        raise RegistryError(error.status, error.code, message) from None


_NO_GUID: Final = "00000000-0000-0000-0000-000000000000"
