"""What a registration would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tallymark_schema_registry.decisions.commands import Check, Found, Register, VersionView
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node.shell import Shell


@dataclass(frozen=True, slots=True)
class DryRun:
    """``would_create``: there would be a new version. ``view`` is the version that has the schema
    already, None where it would be new. ``schema_id`` is the id it has or would get, ``version``
    its number; both None where it would be refused. ``messages`` are the reasons for that.
    ``diff``: what differs from the latest version."""

    would_create: bool
    view: VersionView | None
    schema_id: int | None
    version: int | None
    compatible: bool
    messages: list[str]
    diff: list[dict[str, Any]]


async def dry_run(shell: Shell, command: Register, client: str = "") -> DryRun:
    """What the registration would do. Raises its error where it would be refused for another
    reason than a conflict with earlier versions."""
    try:
        decision = await shell.decision(command, client)
    except RegistryError as error:
        if error.status != 409:
            raise
        check = Check(command.subject, None, command.sent, command.normalize)
        reasons: list[str] = await shell.ask(check, client)
        return DryRun(False, None, None, None, False, reasons or [error.message], [])
    found: Found = decision.reply
    view = None if decision.records else await shell.views.of(found)
    number = found.version.version
    return DryRun(bool(decision.records), view, found.schema.schema_id, number, True, [], [])
