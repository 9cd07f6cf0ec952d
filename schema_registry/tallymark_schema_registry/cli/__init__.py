"""The commands of the schema registry: ``tallymark registry`` (:mod:`.serve`), ``tallymark
registry-access`` (:mod:`.registry_access`: who may do what), and ``tallymark schema ...``, which
asks any registry of the ecosystem over REST.

Each is loaded when it is called. :mod:`.connection` says which registry is meant, :mod:`.reading`
and :mod:`.diffing` show, :mod:`.writing` registers and deletes, :mod:`.settings` sets levels and
modes, :mod:`.folder` checks and applies a folder of files (:mod:`.avsc_files`), :mod:`.moving`
exports and imports.
"""

from __future__ import annotations

import click

from tallymark.shell.lazy_group import LazyGroup

_HERE = "tallymark_schema_registry.cli"
_COMMANDS = {
    "register": f"{_HERE}.writing:register",
    "delete": f"{_HERE}.writing:delete",
    "undelete": f"{_HERE}.writing:undelete",
    "get": f"{_HERE}.reading:get",
    "list": f"{_HERE}.reading:listing",
    "diff": f"{_HERE}.diffing:command",
    "config": f"{_HERE}.settings:config",
    "mode": f"{_HERE}.settings:mode",
    "check": f"{_HERE}.folder:check",
    "apply": f"{_HERE}.folder:apply",
    "export": f"{_HERE}.moving:export",
    "import": f"{_HERE}.moving:import_",
}


@click.group("schema", cls=LazyGroup, lazy=_COMMANDS)
def command() -> None:
    """Register, check, read, delete and move schemas, in any registry of the ecosystem.

    Exit codes: 0 done; 1 refused: incompatible, not found, in conflict; 2 wrong usage; 3 the
    registry cannot be reached, fails, or does not let us in; 130 stopped by Ctrl-C.
    """


__all__ = ["command"]
