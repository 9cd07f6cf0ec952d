"""Three brokers whose clients come by one listener and whose brokers by another one, with a
log-in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cluster_members import member, state_of, zookeeper_or_skip
from eventually import eventually
from security_world import PASSWORD

from tallymark.broker.connections.outgoing import outgoing
from tallymark.broker.connections.sockets import SocketConnections
from tallymark.client import Admin
from tallymark.client.admin.users import NewPassword
from tallymark.errors import AuthenticationError
from tallymark.protocol.messages import MetadataRequest
from tallymark.testing.broker_thread import BrokerThread

pytestmark = pytest.mark.process
IDS = (1, 2, 3)


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[BrokerThread]]:
    with zookeeper_or_skip(tmp_path) as zookeeper, ExitStack() as stack:
        made = [
            member(
                tmp_path,
                zookeeper,
                "apart",
                number,
                listeners="OUTSIDE://127.0.0.1:0,INSIDE://127.0.0.1:0",
                listener_security_protocol_map="OUTSIDE:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
                inter_broker_listener_name="INSIDE",
                inter_broker_user="broker",
                inter_broker_password=PASSWORD,
                connection_failed_authentication_delay_ms=10,
            )
            for number in IDS
        ]
        for broker in made:
            stack.enter_context(broker)
        yield made


def connections_of(broker: BrokerThread) -> SocketConnections:
    """As the broker's own: its settings, and the brokers in its image."""
    state = state_of(broker)
    found = SocketConnections(state.settings.node_id, outgoing(state.settings))
    found.brokers_changed(state.image.brokers)
    return found


def test_brokers_see_each_others_listener_and_connect(brokers: list[BrokerThread]) -> None:
    for broker in brokers:
        eventually(lambda state: set(state.image.brokers) == set(IDS), state_of(broker))

    async def ask_all(broker: BrokerThread) -> list[str | None]:
        connections = connections_of(broker)
        opened = [await connections.open(number) for number in IDS]
        answers = [await each.send(MetadataRequest(topics=()), 10_000) for each in opened]
        ports = {each.port for answer in answers for each in answer.brokers}
        inside = {one.endpoints["INSIDE"].port for one in state_of(broker).image.brokers.values()}
        assert ports == inside, "brokers are told the addresses of their own listener"
        await connections.close()
        return [answer.cluster_id for answer in answers]

    async def refused(broker: BrokerThread) -> None:
        with pytest.raises(AuthenticationError, match="broker 2"):
            await connections_of(broker).open(2)

    asyncio.run(refused(brokers[0]))  # the user is not there yet
    with Admin(bootstrap_servers=brokers[0].bootstrap_servers) as admin:
        admin.alter_users([NewPassword("broker", PASSWORD)]).check()
    for broker in brokers:
        eventually(lambda known: "broker" in known.security.records.users, state_of(broker))
    for broker in brokers:
        assert len(set(asyncio.run(ask_all(broker)))) == 1
