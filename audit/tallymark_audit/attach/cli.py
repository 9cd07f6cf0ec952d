"""``tallymark attach``: look at clusters, decide, ask, write the settings, start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from tallymark.shell.confirm import destructive_options

if TYPE_CHECKING:
    from tallymark.deployment import Deployment
    from tallymark_audit.attach.logins import LogIn
    from tallymark_audit.attach.request import AttachRequest, ClusterAddress

SETTINGS = "tallymark.toml"


class AttachOptions(TypedDict):
    """The argument and options of ``tallymark attach``."""

    address: str
    downstream: tuple[str, ...]
    command_config: str | None
    downstream_configs: tuple[str, ...]
    topics: str
    rename: str
    window_ms: int | None
    settings: str
    data: str | None
    free_ports: bool
    no_start: bool
    dry_run: bool
    yes: bool


@click.command("attach")
@click.argument("address", metavar="[NAME=]HOST:PORT[,...]")
@click.option(
    "--downstream",
    multiple=True,
    metavar="[NAME=]HOST:PORT[,...]",
    help="A cluster into which this one is copied; may be repeated.",
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
def command(**given: Unpack[AttachOptions]) -> None:
    """Audit a Kafka cluster that is there already.

    Looks at it, writes a settings file, makes the audit topic after asking, and keeps collectors
    and dashboards running until Ctrl-C. The same command goes on where it ended.
    """
    from tallymark_audit.attach.attach_run import AttachRun, log_ins_of
    from tallymark_audit.attach.request import parse_clusters

    where = parse_clusters(given["address"], given["downstream"])
    path, data = Path(given["settings"]), Path(given["data"]) if given["data"] else None
    there = _load(path)
    folder = data or (there.data_dir if there else Path(".tallymark"))
    configs = given["command_config"], given["downstream_configs"]
    log_ins = log_ins_of(where, *configs, folder / "secrets")
    run = AttachRun(path, there, _request(where, log_ins, data, given), log_ins)
    decided = run.decide()
    if not given["no_start"] and not given["dry_run"]:
        run.refuse_early(decided, given["free_ports"])
    run.make_topics(decided, dry_run=given["dry_run"], yes=given["yes"])
    if given["dry_run"]:
        click.echo(f"would {'go on with' if there else 'write'} {path}", err=True)
        return
    run.keep(decided)
    if given["no_start"]:
        run.announce(decided.deployment, started=False)
    else:
        run.run(decided, given["free_ports"])


def _request(
    where: Sequence[ClusterAddress],
    log_ins: Mapping[str, LogIn],
    data: Path | None,
    given: AttachOptions,
) -> AttachRequest:
    from tallymark_audit.attach.request import AttachRequest, ClusterRequest, checked_topics

    first, *others = (
        ClusterRequest(one, log_ins[one.name].security if one.name in log_ins else None)
        for one in where
    )
    texts = checked_topics(given["topics"]), given["rename"]
    return AttachRequest(first, tuple(others), data, given["window_ms"], *texts)


def _load(path: Path) -> Deployment | None:
    from tallymark.deployment import load

    return load(path) if path.exists() else None
