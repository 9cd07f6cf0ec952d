"""Connections between brokers over sockets, and over those of a simulated network."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from peers import HOST, Peer, image

from tallymark.broker.connections.outgoing import Outgoing
from tallymark.broker.connections.sockets import SocketConnections
from tallymark.broker.metadata.image import BrokerImage
from tallymark.broker.settings.listeners import Endpoint, Listener
from tallymark.errors import ClosedError, ConnectError
from tallymark.protocol.messages import MetadataRequest, MetadataResponse
from tallymark.testing.simulation.engine.chances import Chances
from tallymark.testing.simulation.engine.jobs import Jobs
from tallymark.testing.simulation.engine.loop import SimulatedLoop
from tallymark.testing.simulation.engine.process import Process
from tallymark.testing.simulation.engine.sealed import sealed
from tallymark.testing.simulation.network import Network
from tallymark.testing.zookeeper import free_port


async def echo(_: Any) -> MetadataResponse:
    return MetadataResponse(cluster_id="c")


def to(
    *brokers: BrokerImage, listener: str = "PLAINTEXT", timeout: float = 5.0
) -> SocketConnections:
    connections = SocketConnections(1, Outgoing(Listener(listener, "PLAINTEXT", "", 0)), timeout)
    connections.brokers_changed({each.node_id: each for each in brokers})
    return connections


def test_the_inter_broker_listener_is_used_and_no_other() -> None:
    async def main() -> None:
        peer = Peer(echo)
        await peer.server.start(HOST, 0)
        inside = Endpoint(HOST, peer.server.address.port)
        both = BrokerImage(2, {"OUTSIDE": Endpoint(HOST, free_port()), "INSIDE": inside})
        connections = to(both, listener="INSIDE")
        connection = await connections.open(2)
        assert (await connection.send(MetadataRequest(), 5_000)).cluster_id == "c"
        assert peer.clients == {"broker-1"}
        connections.brokers_changed({2: BrokerImage(2, {"OUTSIDE": inside})})
        with pytest.raises(ConnectError, match=r"broker 2.*no listener INSIDE.*has OUTSIDE"):
            await connections.open(2)
        await connections.close()
        await peer.server.stop(0.0)

    asyncio.run(main())


def test_a_refusal_is_told_from_every_other_failure() -> None:
    async def main() -> None:
        with socket.socket() as silent:  # accepts in the kernel, answers nothing
            silent.bind((HOST, 0))
            silent.listen()
            connections = to(image(2, free_port()), image(3, silent.getsockname()[1]), timeout=0.3)
            with pytest.raises(ConnectError, match=r"refused.*address of broker 2") as refused:
                await connections.open(2)
            assert refused.value.is_refused
            assert await connections.is_refused(2)
            with pytest.raises(ConnectError, match="broker 3") as unanswered:
                await connections.open(3)
            assert not unanswered.value.is_refused
            assert not await connections.is_refused(3)

    asyncio.run(main())


def test_a_name_with_several_addresses_refuses_if_all_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """asyncio joins the errors of several addresses to one without a number. So a broker that was
    advertised as ``localhost`` (127.0.0.1 and ::1) never counted as refusing, and its partitions
    waited for the end of its session."""

    async def main() -> None:
        port = free_port()
        with socket.socket() as other:
            other.bind(("127.0.0.2", 0))
            listening = other.getsockname()[1]

            async def found(host: str, port: int, **_: Any) -> list[Any]:
                return [(2, 1, 6, "", (each, port)) for each in ("127.0.0.1", "127.0.0.2")]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
            connections = to(BrokerImage(2, {"PLAINTEXT": Endpoint("two.example", port)}))
            with pytest.raises(ConnectError, match="refused; is the broker running") as caught:
                await connections.open(2)
            assert caught.value.is_refused
            other.listen()
            connections.brokers_changed(
                {2: BrokerImage(2, {"PLAINTEXT": Endpoint("two.example", listening)})}
            )
            assert not await connections.is_refused(2)

    asyncio.run(main())


def test_after_the_stop_nothing_is_opened() -> None:
    async def main() -> None:
        peer = Peer(echo)
        await peer.server.start(HOST, 0)
        connections = to(image(2, peer.server.address.port))
        connection = await connections.open(2)
        await connections.close()
        assert connection.closed
        with pytest.raises(ClosedError):
            await connections.open(2)
        await peer.server.stop(0.0)

    asyncio.run(main())


def test_a_broker_that_comes_back_elsewhere_is_found_there() -> None:
    async def main() -> None:
        first, second = Peer(echo), Peer(echo)
        await first.server.start(HOST, 0)
        await second.server.start(HOST, 0)
        connections = to(image(2, first.server.address.port))
        before = await connections.open(2)
        await first.server.stop(0.0)
        with pytest.raises(ConnectError, match="broker 2"):
            await before.send(MetadataRequest(), 5_000)
        connections.brokers_changed({2: image(2, second.server.address.port)})
        after = await connections.open(2)
        assert (await after.send(MetadataRequest(), 5_000)).cluster_id == "c"
        await connections.close()
        await second.server.stop(0.0)

    asyncio.run(main())


def test_a_simulated_network_carries_them() -> None:
    """The same code on virtual time: two processes, a cut between them, a killed one."""
    loop = SimulatedLoop(Chances(7), most_steps=200_000)
    jobs, network = Jobs(loop), Network(loop)
    there, here = Process("broker 2", "10.0.0.2"), Process("broker 1", "10.0.0.1")

    async def serve() -> None:
        await Peer(echo).server.start("10.0.0.2", 9092)

    async def work() -> None:
        connections = to(BrokerImage(2, {"PLAINTEXT": Endpoint("10.0.0.2", 9092)}))
        connection = await connections.open(2)
        assert (await connection.send(MetadataRequest(), 5_000)).cluster_id == "c"
        network.cut("10.0.0.2", "10.0.0.1")
        began = loop.time()
        with pytest.raises(ConnectError, match="no response"):
            await connection.send(MetadataRequest(), 5_000)
        assert loop.time() - began == pytest.approx(5.0)
        network.heal("10.0.0.2", "10.0.0.1")
        connection = await connections.open(2)
        there.kill()
        with pytest.raises(ConnectError, match="broker 2"):
            await connection.send(MetadataRequest(), 5_000)
        assert await connections.is_refused(2)
        await connections.close()

    async def main() -> None:
        await loop.create_task(serve(), context=there.context)
        await loop.create_task(work(), context=here.context)

    with sealed(jobs):
        try:
            loop.run_simulation(main())
        finally:
            there.kill()
            here.kill()
            loop.close()
    assert not loop.errors
