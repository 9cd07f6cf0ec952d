"""End a running supervisor, in order: ``tallymark down``.

Its process id is the kernel's answer to who listens on the control socket: an id in a file may be
another process's by now. It gets SIGTERM, as from a service manager, so that one that is
busy or waits for a broker ends as well. It has ended when its socket is gone and the lock of the
data folder is free.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark.private_files import open_locked
from tallymark.processes.supervisor.control import NotRunningError, ask, connected
from tallymark.processes.supervisor.run import control_file, lock_file

_LOOK_SECONDS: Final = 0.25
_ANSWER_SECONDS: Final = 1.0
_MAC_LEVEL, _MAC_PEER_PID = 0, 2  # SOL_LOCAL and LOCAL_PEERPID, which Python has no names for

Progress = Callable[[Sequence[str]], None]
"""Is called with the names of the processes that still run, again and again."""


def end_stack(deployment: Deployment, within: float, progress: Progress) -> int | None:
    """End the supervisor on the data folder of the deployment, and wait until it has ended; its
    process id, or None where none ran.

    UserError: it is another user's, or it has not ended ``within`` so many seconds.
    """
    pid = supervisor_pid(control_file(deployment))
    if pid is None:
        if _is_locked(lock_file(deployment)):
            raise UserError(
                f"a stack has {lock_file(deployment)} locked and does not listen: it starts, or "
                "is about to end",
                "try again in a moment",
            )
        return None
    _terminate(pid, deployment)
    deadline = time.monotonic() + within
    while not _has_ended(deployment, pid):
        if time.monotonic() >= deadline:
            raise UserError(
                f"the stack on {deployment.data_dir.absolute()} has not ended in {within:g} s "
                f"(process {pid})",
                f"see its logs in {deployment.log_dir.absolute()}, wait with tallymark down once "
                f"more, or end it and its processes at once with kill -9 {pid}: brokers then "
                "recover their logs at the next start",
            )
        progress(_left(control_file(deployment)))
        time.sleep(_LOOK_SECONDS)
    return pid


def supervisor_pid(control: Path) -> int | None:
    """The process that listens on the control socket; None: none does. UserError: it does not
    accept connections, or is another user's."""
    try:
        with connected(control, _ANSWER_SECONDS) as link:
            return _peer_pid(link)
    except NotRunningError:
        return None


def _peer_pid(link: socket.socket) -> int:
    if hasattr(socket, "SO_PEERCRED"):
        found = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", found)[0])
    return int(struct.unpack("i", link.getsockopt(_MAC_LEVEL, _MAC_PEER_PID, 4))[0])


def _terminate(pid: int, deployment: Deployment) -> None:
    folder = deployment.data_dir.absolute()
    if pid <= 0:  # of another container: its number means nothing here, and 0 is our own group
        raise UserError(
            f"the stack on {folder} runs in another container",
            "run tallymark down there, or stop that container",
        )
    try:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)  # one that Ctrl-Z has suspended does not end before
    except ProcessLookupError:
        pass  # it has just ended
    except PermissionError:
        raise UserError(
            f"the stack on {folder} is another user's", "stop it as that user"
        ) from None


def _has_ended(deployment: Deployment, pid: int) -> bool:
    """Another one that was started meanwhile is not ours to wait for."""
    try:
        now = supervisor_pid(control_file(deployment))
    except UserError:  # it accepts no connection, so it is there
        return False
    return now != pid if now is not None else not _is_locked(lock_file(deployment))


def _is_locked(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        os.close(open_locked(path))
    except BlockingIOError:
        return True
    return False


def _left(control: Path) -> list[str]:
    """The processes that run; none where the supervisor is too busy to say."""
    try:
        answer = ask(control, {"do": "status"}, within=_ANSWER_SECONDS)
    except UserError:
        return []
    return [one["name"] for one in answer["processes"] if one["pid"]]
