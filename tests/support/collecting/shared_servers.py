"""Which worker of pytest-xdist runs which test file.

A JVM of Spark and a server of Apache Kafka are started once a worker, and are quick only when they
have run for a while. With files handed out in any order each of four workers starts both. So one
worker runs the files of Spark first, another those of Apache Kafka, and the rest goes to the worker
that is free. When nothing but such files is left, a free worker takes them too: better a second
server than a worker without work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SERVERS: Final = {"spark": "mark.spark", "apache_kafka": "apache_kafka"}
"""What a worker starts once, and what stands in a test file, or in the ids of its tests, that uses
it. A file with both counts for the first."""


def server_of(file: str, text: str, tests: Iterable[str]) -> str | None:
    """The server that the tests of this file share with those of other files, if any."""
    for server, sign in SERVERS.items():
        if sign in text or any(server in test for test in tests):
            return server
    return None


def next_file(waiting: Mapping[str, str | None], mine: str | None) -> str:
    """The file that a worker runs next: of its own server, else of none, else any.

    Args:
        waiting: Each file that no worker has, in the order of the run, with its server.
        mine: The server that this worker runs the files of.
    """
    for wanted in (mine, None):
        for file, server in waiting.items():
            if server == wanted:
                return file
    return next(iter(waiting))


class OneWorkerAServer(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """``--dist loadfile`` with the order above."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._root = Path(config.rootpath)
        self._servers: dict[str, str | None] = {}

    def _assign_work_unit(self, node: WorkerController) -> None:
        waiting = {file: self._server_of(file, tests) for file, tests in self.workqueue.items()}
        self.workqueue.move_to_end(next_file(waiting, self._server_for(node)), last=False)
        super()._assign_work_unit(node)

    def _server_of(self, file: str, tests: Iterable[str]) -> str | None:
        if file not in self._servers:
            text = (self._root / file).read_text(encoding="utf-8")
            self._servers[file] = server_of(file, text, tests)
        return self._servers[file]

    def _server_for(self, node: WorkerController) -> str | None:
        return dict(zip(self.nodes, SERVERS, strict=False)).get(node)
