"""The changes, for programs that follow them: those there are, or the next one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tallymark_schema_registry.catalog.records import to_json
from tallymark_schema_registry.node.shell import Shell
from tallymark_schema_registry.store.changes import Change


class Feed:
    """Belongs to one event loop."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._changed = asyncio.Event()
        self._is_closed = False
        shell.replica.on_change(self._wake)

    async def after(self, number: int, limit: int, wait_s: float) -> list[dict[str, Any]]:
        """See :meth:`~.registry.Registry.changes`."""
        await self._shell.replica.current()
        if self._has_nothing_after(number) and wait_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    while self._has_nothing_after(number) and not self._is_closed:
                        await self._changed.wait()
        if self._has_nothing_after(number):
            return []
        return [_shown(change) for change in await self._shell.since(number, limit)]

    def close(self) -> None:
        """End every wait."""
        self._is_closed = True
        self._changed.set()

    def _has_nothing_after(self, number: int) -> bool:
        return self._shell.catalog.number <= number

    def _wake(self, _: Sequence[Change]) -> None:
        """Wake the requests that wait; later ones wait for the next changes."""
        self._changed.set()
        self._changed = asyncio.Event()


def _shown(change: Change) -> dict[str, Any]:
    number, at_ms, by, record = change
    return {"number": number, "at_ms": at_ms, "by": by, **json.loads(to_json(record))}
