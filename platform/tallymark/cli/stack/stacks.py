"""Which stacks of ``tallymark up`` run here: found by the control sockets in their data folders
(:mod:`tallymark.processes.supervisor.control`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tallymark.deployment import load
from tallymark.deployment.load import ENVIRONMENT, RESOLVED
from tallymark.errors import UserError
from tallymark.processes.supervisor.control import NotRunningError, ask
from tallymark.processes.supervisor.ending import supervisor_pid
from tallymark.processes.supervisor.run import control_file

BELOW: Final = Path(".tallymark")
"""Where ``tallymark up`` and ``tallymark demo`` keep their data if nothing else is said."""
_CONTROL: Final = Path("run", "control.sock")


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack that runs: its data folder (absolute), and its processes as the supervisor lists
    them; ``trouble`` says why it does not."""

    folder: Path
    processes: list[dict[str, Any]]
    trouble: str = ""

    @property
    def settings(self) -> Path:
        """The settings with every port filled in, which its processes read."""
        return self.folder / RESOLVED.name

    @property
    def ready(self) -> bool:
        """Whether every process serves."""
        return not self.trouble and all(process["state"] == "ready" for process in self.processes)


def named_stack(settings: str | None) -> Stack:
    """The stack of these settings. Raises UserError when it does not run."""
    control = control_file(load(settings))
    return Stack(_folder(control), ask(control, {"do": "status"})["processes"])


def running_stacks() -> list[Stack]:
    """Every stack that runs below ``./.tallymark``, and that of ``./tallymark.toml`` if its data is
    elsewhere; by folder. With ``$TALLYMARK_SETTINGS`` the one of those settings only.

    Raises UserError when none runs.
    """
    if os.environ.get(ENVIRONMENT):
        return [named_stack(None)]
    found: dict[Path, Stack] = {}
    for control in _control_files():
        try:
            found[control] = Stack(_folder(control), ask(control, {"do": "status"})["processes"])
        except NotRunningError:  # killed, and its socket is still there
            continue
        except UserError as error:  # one that does not answer must not hide the others
            found[control] = Stack(_folder(control), [], str(error))
    if not found:
        raise UserError(
            f"no stack is running here: none below {BELOW.absolute()}",
            "start one with: tallymark up; or name the settings of one elsewhere with --settings",
        )
    return [found[control] for control in sorted(found)]


def settings_running() -> list[Path]:
    """The settings of those that run below ``./.tallymark``."""
    found: list[Path] = []
    for control in _control_files_below():
        with suppress(UserError):  # another user's
            if supervisor_pid(control) is not None:
                found.append(_folder(control) / RESOLVED.name)
    return sorted(found)


def _control_files() -> Iterator[Path]:
    yield from _control_files_below()
    yield control_file(load())


def _control_files_below() -> Iterator[Path]:
    yield from BELOW.absolute().glob(str(_CONTROL))
    yield from BELOW.absolute().glob(f"*/{_CONTROL}")


def _folder(control: Path) -> Path:
    return control.parent.parent
