"""Whether a process of the stack can be reached: opens a connection, and sends no request.

This is the health check of the containers, which runs every few seconds in each of them, so it
imports as little as it can.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tallymark.errors import UserError
from tallymark.processes.supervisor.plan import ProcessSpec, plan

if TYPE_CHECKING:
    from tallymark.processes.supervisor.plan import Described

REACH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: ``do`` says what to do unless all is well."""

    what: str
    grade: Literal["ok", "warning", "failure"]
    text: str
    do: str = ""


def check_one(deployment: Described, name: str) -> list[Finding]:
    """One process: it accepts connections; if it only makes connections, the processes it needs do.

    Raises UserError for an unknown name.
    """
    specs = {spec.name: spec for spec in plan(deployment)}
    if name not in specs:
        raise UserError(f"there is no process {name!r}", f"there are: {', '.join(specs)}")
    wanted = [name] if specs[name].port else list(specs[name].after)
    return [reach(deployment, specs[one]) for one in wanted]


def reach(deployment: Described, spec: ProcessSpec) -> Finding:
    """Whether the process accepts a connection."""
    try:
        socket.create_connection((spec.host, spec.port), REACH_SECONDS).close()
    except OSError as error:
        do = f"see {deployment.log_dir / spec.name}.log"
        return Finding("reach", "failure", f"{spec.name} on {spec.port}: {error}", do)
    return Finding("reach", "ok", f"{spec.name} answers on {spec.port}")
