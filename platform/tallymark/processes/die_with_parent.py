"""Become another program that does not outlive the process that started us.

``python die_with_parent.py PARENT_PID PROGRAM ARGUMENT...``. Run as a script by
:mod:`tallymark.processes.server_process`; it stands alone and imports nothing of ours.

On Linux the kernel is asked to kill us when the parent dies (``PR_SET_PDEATHSIG``), which survives
``exec``; elsewhere we stay, run the program as a child and watch the parent. SIGKILL, since a
parent killed so cannot wait for its children, and ZooKeeper's log is made for it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.2


def main(parent: int, command: list[str]) -> int:
    """Bind our life to the parent's and run the command; returns its exit code, if at all."""
    if not sys.platform.startswith("linux"):
        return watch(parent, command)
    if bind_to_parent(parent, signal.SIGKILL):
        os.execv(command[0], command)
    return 1


def bind_to_parent(parent: int, number: signal.Signals) -> bool:
    """Ask the kernel (Linux) for the signal when the parent dies; False if it is dead already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    return os.getppid() == parent


def watch(parent: int, command: list[str]) -> int:
    """Run the command as a child; pass SIGTERM on; kill it when the parent is gone."""
    child = subprocess.Popen(command, close_fds=False)
    signal.signal(signal.SIGTERM, lambda number, frame: child.terminate())
    while child.poll() is None:
        if os.getppid() != parent:
            child.kill()
        time.sleep(_POLL_SECONDS)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
