"""Where a client begins: a fixed list of brokers, or the registry in ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tallymark.client.core.calls import in_thread
from tallymark.client.core.security.security import PLAINTEXT, ClientSecurity
from tallymark.errors import UserError
from tallymark.net.addresses import Address, parse_addresses


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Either ``servers``, or the ``zookeeper`` where they are registered (``host:port[/chroot]``);
    and the ``security`` with which every connection to a broker is opened."""

    servers: tuple[Address, ...] = ()
    zookeeper: str = ""
    security: ClientSecurity = PLAINTEXT

    @classmethod
    def of(
        cls,
        bootstrap_servers: str | Iterable[str] | None,
        zookeeper_connect: str | None = None,
        security: ClientSecurity = PLAINTEXT,
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
            return cls(zookeeper=zookeeper_connect, security=security)
        return cls(servers=parse_addresses(bootstrap_servers or ""), security=security)

    async def addresses(self) -> tuple[Address, ...]:
        """The brokers to try, in order. UserError or ConnectError when ZooKeeper returns none."""
        if not self.zookeeper:
            return self.servers
        connect, protocol = self.zookeeper, self.security.protocol
        return await in_thread(
            "tallymark-bootstrap", lambda: brokers_in_zookeeper(connect, protocol)
        )

    def __str__(self) -> str:
        return f"ZooKeeper {self.zookeeper}" if self.zookeeper else ",".join(map(str, self.servers))


def brokers_in_zookeeper(connect: str, protocol: str = "PLAINTEXT") -> tuple[Address, ...]:
    """The live brokers that registered there: for each, the first listener with the security
    protocol ``protocol``. UserError when there are none."""
    # Only clients that use ZooKeeper pay for loading its library.
    from tallymark.coordination.cluster.brokers import BrokerRegistry
    from tallymark.coordination.malformed_nodes import MalformedNodes
    from tallymark.coordination.session.zookeeper import ZooKeeper

    with ZooKeeper(connect) as zookeeper:
        live = BrokerRegistry(zookeeper).brokers(malformed=MalformedNodes())
    if not live:
        raise UserError(
            f"no broker is registered in ZooKeeper at {connect}",
            "start a broker, or mend the chroot behind the port",
        )
    found = [broker.address_by(protocol) for _, broker in sorted(live.items())]
    if not any(found):
        offered = {each.protocol for broker in live.values() for each in broker.listeners}
        raise UserError(
            f"no broker in ZooKeeper at {connect} has a listener with {protocol}",
            f"set security_protocol to one of {', '.join(sorted(offered))}",
        )
    return parse_addresses(address for address in found if address)
