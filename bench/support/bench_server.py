"""What every server of a bench has in common: it listens on a port, its output is in a file."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from tallymark.processes.server_process import ServerProcess


class BenchServer(ServerProcess):
    """A server that is ready when its port can be connected to; its output is ``folder/output``."""

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.host, self.port)) == 0

    def _output_lines(self) -> Sequence[str]:
        return (self.folder / "output").read_text(errors="replace").strip().splitlines()
