"""Commands that are decided on one catalog and written by one transaction. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.records import SchemaAdded
from tallymark_schema_registry.decisions.commands import Answer, Check, Command, Decision, LookUp
from tallymark_schema_registry.decisions.independence import Touched, touched
from tallymark_schema_registry.store.changes import Change, NewText

MAX_TEXT: Final = 4 << 20
"""Characters of the texts of one batch; a single larger one is a batch."""


class Decide(Protocol):
    """See :mod:`tallymark_schema_registry.decisions.commands`."""

    def __call__(
        self,
        catalog: Catalog,
        command: Command,
        now_ms: int,
        taken: Mapping[str, int] | None = None,
    ) -> Answer: ...


class Batch:
    """``after`` is the number of the last change before it. ``decisions``, ``changes`` and
    ``texts`` are those of the commands that were added, in order."""

    def __init__(self, catalog: Catalog, decide: Decide, now_ms: int) -> None:
        self.after = catalog.number
        self.decisions: list[Decision] = []
        self.changes: list[Change] = []
        self.texts: list[NewText] = []
        self._catalog = catalog
        self._decide = decide
        self._now_ms = now_ms
        self._taken: dict[str, int] = {}
        self._touched: list[Touched] = []
        self._size = 0

    @property
    def is_full(self) -> bool:
        """Whether no more texts should be added."""
        return self._size > MAX_TEXT

    def add(self, command: Command) -> Answer | None:
        """The answer, which is in the batch if it is a decision with records; None if the command
        depends on one that is. Raises the error of the decision."""
        mine = touched(self._catalog, command)
        if not all(mine.is_independent_of(other) for other in self._touched):
            return None
        answer = self._decide(self._catalog, command, self._now_ms, self._taken)
        if isinstance(answer, Decision) and answer.records:
            self._touched.append(mine)
            self._take(command, answer)
        return answer

    def _take(self, command: Command, decision: Decision) -> None:
        assert not isinstance(command, LookUp | Check), command
        self.decisions.append(decision)
        for record in decision.records:
            number = self.after + len(self.changes) + 1
            self.changes.append(Change(number, self._now_ms, command.by, record))
            if isinstance(record, SchemaAdded):
                last = self._taken.get(record.context, 0)
                self._taken[record.context] = max(last, record.schema_id)
        for new in decision.contents:
            is_twin = bool(self._catalog.ids_of(new.context, new.content.md5()))
            self.texts.append(NewText(new.context, new.schema_id, new.content.text, is_twin))
            self._size += len(new.content.text)
