"""What a registration would do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tallymark_schema_registry.decisions.asking import newest, question
from tallymark_schema_registry.decisions.commands import (
    Check,
    CheckReport,
    Found,
    Register,
    VersionView,
)
from tallymark_schema_registry.decisions.scope import followed
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node.shell import Shell


@dataclass(frozen=True, slots=True)
class DryRun:
    """``would_create``: there would be a new version. ``view`` is the version that has the schema
    already, None where it would be new. ``schema_id`` is the id it has or would get, ``version``
    its number; both None where it would be refused. ``messages`` are the reasons for that.
    ``warnings`` do not stop it. ``diff``: what differs from the latest version, one object for each
    place: ``action`` (added, removed, changed), ``what``, ``place``, ``path``, ``before``,
    ``after``."""

    would_create: bool
    view: VersionView | None
    schema_id: int | None
    version: int | None
    compatible: bool
    messages: list[str]
    warnings: list[str]
    diff: list[dict[str, Any]]


async def dry_run(shell: Shell, command: Register, client: str = "") -> DryRun:
    """What the registration would do. Raises its error where it would be refused for another
    reason than a conflict with earlier versions."""
    await shell.replica.current()
    check = Check(command.subject, None, command.sent, command.normalize, report=True)
    changed = await _changed(shell, command, client)
    try:
        decision = await shell.decision(command, client)
    except RegistryError as error:
        if error.status != 409:
            raise
        report: CheckReport = await shell.ask(check, client)
        reasons = report.reasons or [error.message]
        return DryRun(False, None, None, None, False, reasons, report.warnings, changed)
    found: Found = decision.reply
    number, schema_id = found.version.version, found.schema.schema_id
    if not decision.records:
        view = await shell.views.of(found)
        return DryRun(False, view, schema_id, number, True, [], [], changed)
    report = await shell.ask(check, client)
    return DryRun(True, None, schema_id, number, True, [], report.warnings, changed)


async def _changed(shell: Shell, command: Register, client: str) -> list[dict[str, Any]]:
    subject = followed(shell.catalog, command.subject)
    latest = newest(shell.catalog, subject)
    if latest is None:
        return []
    asked = question(shell.catalog, subject, command.sent, command.normalize)
    place = subject.context, latest.schema.schema_id
    found = await shell.understanding.changed(asked, place, client)
    return [{name: text for name, text in asdict(one).items() if text} for one in found]
