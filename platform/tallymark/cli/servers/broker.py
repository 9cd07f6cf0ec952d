"""``tallymark broker``: run one broker in the foreground."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tallymark.broker.server import Broker
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.names import is_secret
from tallymark.broker.settings.properties_file import Read, read_properties
from tallymark.broker.settings.text import parse, reference
from tallymark.deployment import Deployment, load
from tallymark.errors import UserError
from tallymark.processes.descriptors import raise_descriptor_limit
from tallymark.processes.gc_pauses import collect_rarely, keep_loaded
from tallymark.processes.process import configure_logging, die_with_parent
from tallymark.processes.zookeeper_credentials import broker_credentials

log = logging.getLogger("broker")


@click.command("broker")
@click.option(
    "--settings",
    type=click.Path(),
    help="The deployment's settings file; with a name in .properties the same as --config.",
)
@click.option("--config", type=click.Path(), help="The broker's own settings: name=value lines.")
@click.option("--cluster", help="The cluster of the deployment that the broker belongs to.")
@click.option("--id", "node_id", type=int, help="The broker's id in the cluster (default 0).")
@click.option("--data", type=click.Path(file_okay=False), help="Its data folder.")
@click.option("--host", help="The address to listen on (default 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65535), help="The port to listen on; 0: a free one.")
@click.option("--no-zookeeper", is_flag=True, help="A single broker that needs no ZooKeeper.")
@click.option("--set", "extra", multiple=True, metavar="NAME=VALUE", help="One broker setting.")
@click.option("--help-settings", is_flag=True, help="Print every broker setting, and exit.")
def command(
    settings: str | None,
    config: str | None,
    cluster: str | None,
    node_id: int | None,
    data: str | None,
    host: str | None,
    port: int | None,
    no_zookeeper: bool,
    extra: Sequence[str],
    help_settings: bool,
) -> None:
    """Run one broker until SIGTERM or Ctrl-C.

    As a part of a deployment: --settings FILE --cluster NAME --id N. On its own: --config FILE
    (like Kafka's server.properties), or --data FOLDER --port N --no-zookeeper. Options override
    files.
    """
    if help_settings:
        click.echo(reference(), nl=False)
        return
    if settings is not None and settings.endswith(".properties"):
        settings, config = None, config or settings
    values: dict[str, Any] = {}
    if cluster is not None:
        values |= of_deployment(load(settings), cluster, node_id or 0)
    elif config is None and data is None:
        raise UserError(
            "which broker shall run?",
            "give --cluster NAME (of a deployment), --config FILE, or --data FOLDER --port N "
            "--no-zookeeper",
        )
    skipped: Mapping[str, str] = {}
    if config is not None:
        found = of_file(Path(config))
        values |= found.values
        skipped = found.skipped
    given = {"node.id": node_id, "log.dirs": data, "host.name": host, "port": port}
    values |= {name: value for name, value in given.items() if value is not None}
    if no_zookeeper:
        values["enable.zookeeper"] = False
    values |= dict(_given(text) for text in extra)
    run(parse(values), skipped)


def of_file(path: Path) -> Read:
    """What a file of ``name=value`` lines says; UserError where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "mend --config") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text in UTF-8", "mend --config") from error
    return read_properties(text, str(path))


def of_deployment(deployment: Deployment, cluster_name: str, node_id: int) -> dict[str, Any]:
    """The broker settings that a deployment implies, by Kafka's names."""
    try:
        cluster = deployment.cluster(cluster_name)
    except KeyError as error:
        raise UserError(str(error.args[0]), "mend --cluster or the settings file") from None
    for address in cluster.brokers:
        if address.id == node_id:
            break
    else:
        known = ", ".join(str(address.id) for address in cluster.brokers)
        raise UserError(
            f"the cluster {cluster.name} has no broker {node_id} (it has: {known})", "mend --id"
        )
    return {
        "node.id": node_id,
        "host.name": address.host,
        "port": address.port,
        "advertised.host.name": address.advertised_host,
        "log.dirs": deployment.data_dir.absolute() / cluster.name / f"broker-{node_id}",
        "zookeeper.connect": deployment.zookeeper.connect + cluster.root,
        "zookeeper.session.timeout.ms": deployment.zookeeper.session_timeout_ms,
        **broker_credentials(deployment, cluster),
        **cluster.broker_settings,
    }


def _given(text: str) -> tuple[str, str]:
    """An option of ours; a secret in it is seen by every user that may list processes."""
    name, value = _pair(text)
    if is_secret(name) and value and not value.startswith("${"):
        click.echo(
            f"tallymark: --set {name} shows its value in the list of processes; give ${{NAME}} of "
            "the environment, ${file:PATH}, or --config",
            err=True,
        )
    return name, value


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set {text.split(maxsplit=1)[:1]} is not NAME=VALUE")
    return name.strip(), value.strip()


def run(settings: BrokerSettings, skipped: Mapping[str, str] | None = None) -> None:
    """Serve until a signal says stop; UserError when the broker cannot start or go on. ``skipped``
    are settings without an effect, and why; for the log."""
    configure_logging(form=settings.log_format)
    die_with_parent()
    raise_descriptor_limit()
    collect_rarely()
    for name, why in (skipped or {}).items():
        log.warning("%s has no effect: %s", name, why)
    asyncio.run(_serve(settings))


async def _serve(settings: BrokerSettings) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    broker = Broker(settings)
    starting = asyncio.create_task(broker.start())
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if stopping.done() and not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return
        await starting
        keep_loaded()
        loop.add_signal_handler(signal.SIGHUP, broker.reload_certificates)
        if broker.metrics_address is not None:
            log.info("metrics url=%s", f"http://{broker.metrics_address}/metrics")
        log.info("ready %s", broker.address)
        await asyncio.wait((broker.failed, stopping), return_when=asyncio.FIRST_COMPLETED)
        if broker.failed.done():
            await broker.failed
    finally:
        stopping.cancel()
        await broker.stop()
        log.info("stopped")
