"""The one entry point of all commands."""

from __future__ import annotations

from collections.abc import Mapping

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.decisions.commands import (
    Answer,
    Check,
    Command,
    DeleteConfig,
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    Import,
    LookUp,
    PlainCommand,
    Register,
    RestoreVersion,
    SetConfig,
    SetMode,
)
from tallymark_schema_registry.decisions.configuring import delete_config, set_config
from tallymark_schema_registry.decisions.deleting import (
    delete_subject,
    delete_version,
    restore_version,
)
from tallymark_schema_registry.decisions.importing import import_version
from tallymark_schema_registry.decisions.looking_up import check, look_up
from tallymark_schema_registry.decisions.modes import delete_context, delete_mode, set_mode
from tallymark_schema_registry.decisions.register import register


def decide(
    catalog: Catalog, command: Command, now_ms: int, taken: Mapping[str, int] | None = None
) -> Answer:
    """What the command changes, or what has to be found out first. Raises RegistryError where it is
    refused.

    ``taken``: context -> the highest id that other commands of the same batch have taken, which
    the catalog does not know yet."""
    match command:
        case Register():
            return register(catalog, command, now_ms, taken)
        case LookUp():
            return look_up(catalog, command)
        case Check():
            return check(catalog, command)
        case _:
            return _decide_change(catalog, command)


def _decide_change(catalog: Catalog, command: PlainCommand) -> Answer:
    match command:
        case Import():
            return import_version(catalog, command)
        case DeleteVersion():
            return delete_version(catalog, command)
        case DeleteSubject():
            return delete_subject(catalog, command)
        case RestoreVersion():
            return restore_version(catalog, command)
        case SetConfig():
            return set_config(catalog, command)
        case DeleteConfig():
            return delete_config(catalog, command)
        case SetMode():
            return set_mode(catalog, command)
        case DeleteMode():
            return delete_mode(catalog, command)
        case DeleteContext():
            return delete_context(catalog, command)
