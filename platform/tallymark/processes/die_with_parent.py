"""Become another program that does not outlive the process that started us.

``python die_with_parent.py PARENT_PID PROGRAM ARGUMENT...``. Run as a script by
:mod:`tallymark.processes.zookeeper_server`; it stands alone and imports nothing of ours.

On Linux the kernel is asked to kill us when the parent dies (``PR_SET_PDEATHSIG``), which survives
``exec``; elsewhere we stay, run the program as a child and watch the parent. SIGKILL, since a
parent killed so cannot wait for anybody, and ZooKeeper's log is made for it.
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
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == parent:  # else it died before we asked
        os.execv(command[0], command)
    return 1


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
