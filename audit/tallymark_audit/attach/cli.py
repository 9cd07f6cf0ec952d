"""``tallymark attach``: look at clusters, decide, ask, write the settings, start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallymark.shell.confirm import destructive_options

if TYPE_CHECKING:
    from tallymark.deployment import Deployment

SETTINGS = "tallymark.toml"


@click.command("attach")
@click.argument("address", metavar="[NAME=]HOST:PORT[,...]")
@click.option(
    "--downstream",
    multiple=True,
    metavar="[NAME=]HOST:PORT[,...]",
    help="A cluster into which somebody copies this one; may be repeated.",
)
@click.option(
    "--command-config",
    type=click.Path(dir_okay=False),
    help="Security settings of Kafka's client.properties, for every cluster.",
)
@click.option(
    "--downstream-command-config",
    "downstream_configs",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="Those of the downstream clusters, in their order.",
)
@click.option("--topics", default="", help="A regular expression: audit these. Default: all.")
@click.option("--rename", default="", help="What copies are called. Default: as they are found.")
@click.option("--window-ms", type=click.IntRange(1000, 3_600_000), help="Default: 60000.")
@click.option(
    "--settings", type=click.Path(), default=SETTINGS, show_default=True, help="Written once."
)
@click.option("--data", type=click.Path(file_okay=False), help="Default: .tallymark")
@click.option("--free-ports", is_flag=True, help="Dashboards on a free port.")
@click.option("--no-start", is_flag=True, help="Write the settings, make the topics, and end.")
@destructive_options
def command(
    address: str,
    downstream: tuple[str, ...],
    command_config: str | None,
    downstream_configs: tuple[str, ...],
    topics: str,
    rename: str,
    window_ms: int | None,
    settings: str,
    data: str | None,
    free_ports: bool,
    no_start: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Audit a Kafka cluster that is there already.

    Looks at it, writes a settings file, makes the audit topic after asking, and keeps collectors
    and dashboards running until Ctrl-C. The same command goes on where it ended.
    """
    from tallymark_audit.attach.asked import Asked, ClusterAsked, places
    from tallymark_audit.attach.shell import Shell, log_ins_of

    where = places(address, downstream)
    path = Path(settings)
    there = _load(path)
    folder = Path(data) if data else there.data_dir if there else Path(".tallymark")
    log_ins = log_ins_of(where, command_config, downstream_configs, folder / "secrets")
    clusters = [
        ClusterAsked(one, log_ins[one.name].security if one.name in log_ins else None)
        for one in where
    ]
    asked = Asked(
        clusters[0], tuple(clusters[1:]), Path(data) if data else None, window_ms, topics, rename
    )
    shell = Shell(path, there, asked, log_ins)
    decided = shell.decide()
    if not no_start and not dry_run:
        shell.refuse_early(decided, free_ports)
    shell.make_topics(decided, dry_run=dry_run, yes=yes)
    if dry_run:
        click.echo(f"would {'go on with' if there else 'write'} {path}", err=True)
        return
    shell.keep(decided)
    if no_start:
        shell.announce(decided.deployment, started=False)
    else:
        shell.run(decided, free_ports)


def _load(path: Path) -> Deployment | None:
    from tallymark.deployment import load

    return load(path) if path.exists() else None
