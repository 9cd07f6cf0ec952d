"""Faults that a test makes on a running stack, so that pages have something real to show."""

from __future__ import annotations

import random
from collections.abc import Collection

from eventually import eventually
from running_stack import Stack

from tallymark.client import Admin, Producer, SimpleConsumer
from tallymark.client.admin.records import END_OF_LOG
from tallymark.processes.free_ports import is_taken
from tallymark.processes.supervisor.control import ask
from tallymark.processes.supervisor.run import control_file
from tallymark_audit.model.log_reader import partitions_of
from tallymark_audit.proof.demo.stack import broker_folder
from tallymark_audit.proof.harness import power_failure

PATIENCE = 120.0
BROKER = "broker-aggregate-0"


def control(stack: Stack, do: str, name: str) -> None:
    """Tell the supervisor: hold, kill or release a process."""
    ask(control_file(stack.deployment), {"do": do, "name": name})


def cut_tails_of_the_aggregate(stack: Stack, topics: Collection[str]) -> None:
    """Its machine loses its power: of each topic, what the broker had not flushed is gone."""
    folder = broker_folder(stack.deployment)
    (address,) = stack.deployment.cluster("aggregate").brokers

    def is_dead() -> bool:
        return stack.process(BROKER)["pid"] is None and not is_taken(address.host, address.port)

    def tails() -> dict[str, power_failure.UnflushedTail]:
        found = power_failure.unflushed_tails(folder)
        return {tail.topic: tail for tail in found if tail.topic in topics}

    eventually(lambda: len(tails()) == len(topics), seconds=PATIENCE, what="all have such a tail")
    control(stack, "hold", BROKER)
    control(stack, "kill", BROKER)
    eventually(is_dead, seconds=PATIENCE, what="the broker is dead")
    for tail in tails().values():
        power_failure.cut_tail(tail, random.Random(3))
    control(stack, "release", BROKER)
    eventually(
        lambda: stack.process(BROKER)["state"] == "ready", seconds=PATIENCE, what="it is back"
    )


def delete_all(stack: Stack, cluster: str, topic: str) -> None:
    """As retention does: nothing of the topic is left there."""
    bootstrap = stack.deployment.cluster(cluster).bootstrap_servers
    with SimpleConsumer(bootstrap_servers=bootstrap) as reader:
        partitions = partitions_of(reader.topics()[topic])
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({(topic, number): END_OF_LOG for number in partitions}).check()


def send_again(stack: Stack, cluster: str, topic: str) -> int:
    """The first batch of each partition once more, with its stamps, as a second mirror does that
    begins anew; returns the number of messages."""
    bootstrap = stack.deployment.cluster(cluster).bootstrap_servers
    with SimpleConsumer(bootstrap_servers=bootstrap) as reader:
        batches = [
            (number, next(iter(reader.fetch(topic, number, 0).batches)))
            for number in partitions_of(reader.topics()[topic])
        ]
    with Producer(bootstrap_servers=bootstrap, audit=False) as producer:
        sent = [
            producer.send(
                topic, record.value, key=record.key, partition=number, timestamp=record.timestamp,
                headers=record.headers,
            )
            for number, batch in batches
            for record in batch.records()
        ]  # fmt: skip
        for one in sent:
            one.result(30)
    return len(sent)
