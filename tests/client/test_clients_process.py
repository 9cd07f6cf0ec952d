"""Clients with parts that are other processes: a real ZooKeeper, a killed producer, a stopped
broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from broker_kinds import KINDS, OURS, AnyBroker

from tallymark.client import Admin, Producer, SimpleConsumer
from tallymark.errors import TallymarkError, UserError
from tallymark.processes.apache_kafka import ApacheKafkaServer
from tallymark.processes.java import find_java
from tallymark.processes.zookeeper_server import find_jars
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.process


@contextmanager
def child(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process that is gone afterwards, however the test ends: Popen by itself would wait
    for it, and for a stopped one for ever."""
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()  # SIGKILL ends a stopped process too


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The process stands still inside and goes on afterwards, however the block ends.

    kill() only leaves the signal: the process stops when its main thread is next given a core, and
    its other threads work on until then. The kernel is asked when all of them have stopped.
    """
    os.kill(pid, signal.SIGSTOP)
    try:
        # WEXITED, or one that died would be waited for in vain; WNOWAIT leaves its end to Popen.
        state = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert state is not None
        assert state.si_code == os.CLD_STOPPED
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_the_brokers_are_found_in_zookeeper(tmp_path: Path) -> None:
    try:
        find_java()
        find_jars()
    except UserError as error:
        pytest.skip(str(error))
    with ZooKeeperServer(tmp_path) as server:
        connect = f"{server.connect}/dc1"
        with Admin(zookeeper_connect=connect) as admin, pytest.raises(TallymarkError):
            admin.topics()
        broker = BrokerThread(tmp_path, enable_zookeeper=True, zookeeper_connect=connect)
        with broker:
            with Producer(zookeeper_connect=connect, audit=False) as producer:
                producer.send("t", b"x").result(20)
            with SimpleConsumer(zookeeper_connect=connect) as consumer:
                (record,) = consumer.fetch("t", 0, 0).records()
                assert record.value == b"x"
        nobody = "no broker is registered in ZooKeeper"
        with (
            Admin(zookeeper_connect=connect) as admin,
            pytest.raises(UserError, match=nobody),
        ):
            admin.topics()


SENDER = """
import sys
from tallymark import Producer
producer = Producer(bootstrap_servers=sys.argv[1], audit=False, batch_size=200, linger_ms=0)
number = 0
while True:
    producer.send(sys.argv[2], b"%d" % number).result(20)
    number += 1
    print(number, flush=True)
"""


def test_what_a_killed_producer_was_told_is_in_the_log(any_broker: AnyBroker, topic: str) -> None:
    """kill -9 in the middle: every record whose delivery had been reported is there, in order."""
    servers = any_broker.bootstrap_servers
    with child(SENDER, servers, topic) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(50)]
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.stdout.read().splitlines()]
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        records = consumer.fetch(topic, 0, 0).records()
    values = [int(record.value or b"") for record in records]
    assert values == list(range(len(values)))
    assert len(values) in (told[-1], told[-1] + 1)


BROKER = """
import pathlib, sys, time
from tallymark.testing.broker_thread import BrokerThread
with BrokerThread(pathlib.Path(sys.argv[1])) as broker:
    print(broker.bootstrap_servers, flush=True)
    time.sleep(60)
"""


@pytest.fixture(params=KINDS)
def hanging(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, int]]:
    """The address of a broker and the process that may be stopped."""
    if request.param == OURS:
        with child(BROKER, str(tmp_path)) as process:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process.pid
    else:
        kafka: ApacheKafkaServer = request.getfixturevalue("apache_kafka")
        yield kafka.bootstrap_servers, kafka.pid


def test_a_broker_that_hangs_is_left_and_found_again(hanging: tuple[str, int], topic: str) -> None:
    """The broker's process is stopped (SIGSTOP): its socket still accepts, nothing answers. The
    producer's requests time out, it connects again and again; when the broker goes on, nothing is
    missing and nothing is there twice.

    This test once sent as soon as kill() returned. On a busy machine the broker, not yet stopped,
    answered some of it; the test gave up before SIGCONT and waited for a process that stood still.
    """
    servers, pid = hanging
    with Producer(
        bootstrap_servers=servers, audit=False, request_timeout_ms=300, batch_size=100
    ) as producer:
        producer.send(topic, b"0").result(20)
        with stopped(pid):
            deliveries = [producer.send(topic, b"%d" % number) for number in range(1, 20)]
            time.sleep(1.0)
            assert not any(delivery.done() for delivery in deliveries)
        assert [d.result(20).offset for d in deliveries] == list(range(1, 20))
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        values = [record.value for record in consumer.fetch(topic, 0, 0).records()]
    assert values == [b"%d" % number for number in range(20)]
