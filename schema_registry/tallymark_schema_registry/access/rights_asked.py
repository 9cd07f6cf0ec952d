"""How a right is asked for, and what is answered where it is not given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tallymark.clock import now_ms
from tallymark_schema_registry import errors
from tallymark_schema_registry.access.grants import Principal, Right
from tallymark_schema_registry.access.visible import VisibleCatalog
from tallymark_schema_registry.catalog.content import Reference
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.decisions.commands import (
    Decision,
    DeleteConfig,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    RestoreVersion,
)
from tallymark_schema_registry.decisions.decide import decide
from tallymark_schema_registry.decisions.references import closure, numbered
from tallymark_schema_registry.decisions.scope import followed
from tallymark_schema_registry.node.registry import Registry

Reply = TypeVar("Reply")
Deletion = DeleteVersion | DeleteSubject | RestoreVersion | DeleteConfig | DeleteMode


class RightsAsked(Registry):
    """A registry of which ``principal`` sees a part; ``whole`` is all of it."""

    def __init__(self, whole: Registry, principal: Principal) -> None:
        self._whole = whole
        self._shell = whole._shell
        self.replica = whole.replica
        self.principal = principal

    @property
    def catalog(self) -> VisibleCatalog:  # type: ignore[override]
        """What may be read."""
        return VisibleCatalog(self._shell.catalog, self.principal)

    async def _demand(self, right: Right, subject: Subject, *, alias: bool = True) -> None:
        """Raises the 40301 error where the right is not given, be the subject there or not."""
        await (
            self.replica.current()
        )  # or an alias that another process has just set would not be known
        for name in self._names(subject, alias):
            if not self.principal.may(right, name):
                raise errors.forbidden(self.principal.name, right, subject.qualified)

    async def _change(
        self,
        right: Right,
        command: Deletion,
        change: Callable[[], Awaitable[Reply]],
        *,
        alias: bool = True,
    ) -> Reply:
        """What ``change`` does, which is the command, to a subject that has to be there."""
        await self.replica.current()
        names = self._names(command.subject, alias)
        if not all(self.principal.may(Right.READ, name) for name in names):
            found: Reply = self._as_missing(command)
            return found
        await self._demand(right, command.subject, alias=alias)
        return await change()

    def _as_missing(self, command: Deletion) -> Any:
        """What is answered where the command's subject is not there; mostly an error."""
        answer = decide(self.catalog, command, now_ms())
        assert isinstance(answer, Decision)
        return answer.reply

    def _names(self, subject: Subject, alias: bool) -> tuple[Subject, ...]:
        """The name in the request, and that of the subject which is meant."""
        return (subject, followed(self._shell.catalog, subject)) if alias else (subject,)

    def _check_references(self, subject: Subject, references: tuple[Reference, ...]) -> None:
        """Raises the error about a reference to something missing where one reaches what may not be
        read. ``subject``: whose schema refers to it."""
        context = followed(self._shell.catalog, subject).context
        catalog = self.catalog
        closure(catalog, context, numbered(catalog, context, references))

    def _may_quote(self, subject: Subject) -> bool:
        """Whether reasons why something is not compatible with the subject may be shown."""
        return self.catalog.has_all_of(followed(self._shell.catalog, subject))
