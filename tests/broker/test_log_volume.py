"""What strangers make a broker write to its log."""

from __future__ import annotations

import random
import socket
import struct
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from eventually import eventually

from tallymark import Producer
from tallymark.client import SimpleConsumer

pytestmark = pytest.mark.process

CONNECTIONS = 3000
GROUPS = 3000


def garbage(chance: random.Random) -> bytes:
    """A frame that is too long, one whose header is no header, one whose body is none."""
    kind = chance.randrange(3)
    if kind == 0:
        return struct.pack(">i", 2**31 - 1) + chance.randbytes(40)
    if kind == 1:
        return struct.pack(">i", 40) + chance.randbytes(40)
    body = struct.pack(">hhih", chance.choice((0, 1, 3, 11)), 9, 1, -1) + chance.randbytes(60)
    return struct.pack(">i", len(body)) + body


def throw(port: int, sent: bytes, host: str) -> None:
    """One connection from one of the machine's own sixteen million addresses."""
    with socket.socket() as link:
        link.settimeout(30)
        link.bind((host, 0))
        try:
            link.connect(("127.0.0.1", port))
            link.sendall(sent)
            link.shutdown(socket.SHUT_WR)
            while link.recv(1 << 16):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass


def ask(link: socket.socket, body: bytes) -> bytes:
    """The answer behind its correlation id."""
    link.sendall(struct.pack(">i", len(body)) + body)
    size = struct.unpack(">i", link.recv(4, socket.MSG_WAITALL))[0]
    return link.recv(size, socket.MSG_WAITALL)[4:]


def joins(port: int) -> int:
    """New members of new groups, as fast as one connection takes them; how many got in."""
    joined = 0
    with socket.create_connection(("127.0.0.1", port), 30) as link:
        find = struct.pack(">hhih", 10, 0, 1, -1) + struct.pack(">h", 1) + b"g"
        eventually(lambda: ask(link, find)[:2] == b"\0\0", seconds=30, what="a coordinator")
        for number in range(GROUPS):
            group = b"g%06d" % number
            fields = [
                *(struct.pack(">hhih", 11, 2, number, -1), struct.pack(">h", len(group)), group),
                struct.pack(">ii", 6000, 1),  # its rebalance is over at once
                *(struct.pack(">h", 0), struct.pack(">h", 8), b"consumer"),
                *(struct.pack(">i", 1), struct.pack(">h", 5), b"range", struct.pack(">i", 0)),
            ]
            joined += ask(link, b"".join(fields))[4:6] == b"\0\0"
    return joined


def test_garbage_from_many_addresses_is_few_lines(tmp_path: Path) -> None:
    """A loop of connections that send nonsense, and one of groups that are joined and left, wrote a
    line or two for each: hundreds of megabytes a day, by one stranger and without a log-in. Here
    they come from many addresses, so that nothing which goes by address holds them back."""
    chance = random.Random(9)
    with BrokerProcess(tmp_path, group_initial_rebalance_delay_ms=0) as broker:
        with Producer(bootstrap_servers=broker.address, audit=False) as producer:
            producer.send("t", b"before").result(30)
        before = broker.log.stat().st_size
        for number in range(CONNECTIONS):
            throw(broker.port, garbage(chance), f"127.1.{number // 250}.{number % 250 + 1}")
        thrown = broker.log.stat().st_size - before
        assert joins(broker.port) > GROUPS * 0.9  # the first may come while they are loaded
        joined = broker.log.stat().st_size - before - thrown
        text = broker.log.read_text()
        # A place has 500 lines and one a second; several places are met.
        assert thrown < 1500 * 250, text[-3000:]
        assert joined < 1500 * 300, text[-3000:]
        assert "Traceback" not in text
        with Producer(bootstrap_servers=broker.address, audit=False) as producer:
            producer.send("t", b"after").result(30)
        with SimpleConsumer(bootstrap_servers=broker.address) as consumer:
            assert [one.value for one in consumer.fetch("t", 0, 0)] == [b"before", b"after"]
        broker.stop()
