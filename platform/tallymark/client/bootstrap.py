"""Where a client begins: a fixed list of brokers, or the registry in ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from tallymark.errors import UserError
from tallymark.net import Address, parse_addresses


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Either ``servers`` or the ``zookeeper`` that knows them (``host:port[/chroot]``)."""

    servers: tuple[Address, ...] = ()
    zookeeper: str = ""

    @classmethod
    def of(
        cls, bootstrap_servers: str | Iterable[str] | None, zookeeper_connect: str | None = None
    ) -> Bootstrap:
        """Raises UserError when both or neither is given, or an address is malformed."""
        if (bootstrap_servers is None) == (zookeeper_connect is None):
            raise UserError(
                "the client does not know where the cluster is"
                if bootstrap_servers is None
                else "both bootstrap_servers and zookeeper_connect are given",
                "give bootstrap_servers=host:port,... or zookeeper_connect=host:port/chroot",
            )
        if zookeeper_connect is not None:
            return cls(zookeeper=zookeeper_connect)
        return cls(servers=parse_addresses(bootstrap_servers or ""))

    async def addresses(self) -> tuple[Address, ...]:
        """The brokers to try, in order. UserError or ConnectError when ZooKeeper knows none."""
        if not self.zookeeper:
            return self.servers
        return await asyncio.to_thread(brokers_in_zookeeper, self.zookeeper)

    def __str__(self) -> str:
        return f"ZooKeeper {self.zookeeper}" if self.zookeeper else ",".join(map(str, self.servers))


def brokers_in_zookeeper(connect: str) -> tuple[Address, ...]:
    """The live brokers that registered there. UserError when there are none."""
    # Only clients that are told to use ZooKeeper pay for loading its library.
    from tallymark.coordination.brokers import BrokerRegistry
    from tallymark.coordination.zookeeper import ZooKeeper

    with ZooKeeper(connect) as zookeeper:
        live = BrokerRegistry(zookeeper).brokers()
    if not live:
        raise UserError(
            f"no broker is registered in ZooKeeper at {connect}",
            "start a broker, or mend the chroot behind the port",
        )
    return tuple(Address(broker.host, broker.port) for _, broker in sorted(live.items()))
