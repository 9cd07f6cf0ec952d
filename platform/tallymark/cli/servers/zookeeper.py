"""``tallymark zookeeper``: run Apache ZooKeeper in the foreground, as the settings say."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from tallymark.deployment import load
from tallymark.processes.process import run_process
from tallymark.processes.zookeeper_server import ZooKeeperServer


@click.command()
@click.option(
    "--settings",
    type=click.Path(path_type=Path),
    help="The deployment's settings file.",
)
def command(settings: Path | None) -> None:
    """Run Apache ZooKeeper from the Spark extra.

    Its data goes to the folder zookeeper of the deployment's data_dir. SIGTERM and Ctrl-C stop it.
    """
    deployment = load(settings)
    where = deployment.zookeeper
    server = ZooKeeperServer(deployment.data_dir / "zookeeper", where.host, where.port)

    def start() -> ZooKeeperServer:
        server.start()
        logging.getLogger("zookeeper").info(
            "serving on %s, process %s, data in %s", server.connect, server.pid, server.folder
        )
        return server

    run_process("zookeeper", start, server.check)
