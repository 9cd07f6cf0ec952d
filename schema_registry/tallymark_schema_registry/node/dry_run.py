"""What a registration would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tallymark_schema_registry.decisions.commands import VersionView


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
