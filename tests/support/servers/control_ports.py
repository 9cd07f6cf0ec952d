"""The control port of a stack, without the stack."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tallymark.processes.supervisor.control_server import ControlServer


@contextmanager
def supervisor(folder: Path, *names: str) -> Iterator[None]:
    """The control port of a stack with these processes, all of them serving."""
    (folder / "run").mkdir(parents=True)
    server = ControlServer(folder / "run" / "control.sock")
    ended = threading.Event()

    def answer() -> None:
        processes = [{"name": name, "state": "ready"} for name in names]
        while not ended.wait(0.01):
            for _, future in server.pending():
                future.set_result({"ok": True, "processes": processes})

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        server.close()
