"""A broker process on a machine whose power can be taken away.

``python powered_broker.py JOURNAL BOOT OPTIONS``: ``tallymark broker OPTIONS`` on a disk that notes
in ``JOURNAL`` what was synced (:mod:`synced_files`), and on a kernel with the boot id ``BOOT``.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from synced_files import SyncedFiles, lose_power

from tallymark.broker.ports import Ports
from tallymark.broker.server import Broker
from tallymark.cli.servers import broker as cli

if TYPE_CHECKING:  # as a script it finds only what is beside it
    from broker_process import BrokerProcess

_boots: Final = itertools.count(1)


class Machine:
    """That of ``broker``, which is not running yet."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self._journal = broker.data.parent / "synced.journal"
        self._boot()

    def lose_power(self) -> int:
        """The broker is dead, and its files are what was synced; returns how many bytes that took.
        The next start is that of another boot."""
        self.broker.kill()
        lost = lose_power(self.broker.data, self._journal)
        self._boot()
        return lost

    def _boot(self) -> None:
        boot = f"{next(_boots):08x}-0000-4000-8000-000000000000"
        self.broker.program = (__file__, str(self._journal), boot)


def lose_power_of(machines: Mapping[int, Machine], first: int, many: int) -> int:
    """Of so many machines at once, ``first`` and those behind it; then their brokers start again.
    Returns how many bytes they have lost."""
    nodes = list(itertools.islice(itertools.cycle(machines), first - 1, first - 1 + many))
    for node in nodes:
        machines[node].broker.kill()
    lost = sum(machines[node].lose_power() for node in nodes)
    for node in nodes:
        machines[node].broker.start()
    return lost


def _main(journal: str, boot: str, options: list[str]) -> None:
    ports = Ports(files=SyncedFiles(Path(journal)), boot_id=lambda: boot)
    with patch.object(cli, "Broker", partial(Broker, ports=ports)):
        cli.command(options)


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], sys.argv[3:])
