"""``tallymark apache-kafka``: run a broker of Apache Kafka in the foreground."""

from __future__ import annotations

import logging

import click

from tallymark.deployment import Deployment, load
from tallymark.errors import UserError
from tallymark.processes.apache_kafka import VERSION, ApacheKafkaServer
from tallymark.processes.process import run_process


@click.command("apache-kafka")
@click.option("--settings", type=click.Path(), help="The settings file of the deployment.")
@click.option("--cluster", required=True, help="A cluster of kind apache-kafka.")
@click.option("--id", "broker_id", type=int, default=0, show_default=True, help="Its broker.")
def command(settings: str | None, cluster: str, broker_id: int) -> None:
    """Run a broker of Apache Kafka, a cluster of its own (KRaft).

    For trying the stack on Apache Kafka; its jars are fetched by Maven at the first time. Data and
    output go to data_dir/CLUSTER/broker-ID. SIGTERM and Ctrl-C stop it.
    """
    server = make(load(settings), cluster, broker_id)

    def start() -> ApacheKafkaServer:
        server.start()
        logging.getLogger("apache-kafka").info(
            "Apache Kafka %s serves on %s, process %s, data in %s",
            *(VERSION, server.bootstrap_servers, server.pid, server.data),
        )
        return server

    run_process("apache-kafka", start, server.check)


def make(deployment: Deployment, cluster: str, broker_id: int) -> ApacheKafkaServer:
    """The broker as the settings describe it, not started. UserError: they do not."""
    try:
        found = deployment.cluster(cluster)
    except KeyError as error:
        raise UserError(str(error.args[0])) from None
    if found.kind != "apache-kafka":
        raise UserError(f"{cluster} has our brokers", "start them with tallymark broker")
    for broker in found.brokers:
        if broker.id == broker_id:
            return ApacheKafkaServer(
                deployment.data_dir / cluster / f"broker-{broker_id}",
                {name: _text(value) for name, value in found.broker_settings.items()},
                host=broker.host,
                port=broker.port,
                advertised_host=broker.advertised_host,
                node_id=broker_id,
            )
    raise UserError(f"{cluster} has no broker {broker_id}", "give --id one of the settings")


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
