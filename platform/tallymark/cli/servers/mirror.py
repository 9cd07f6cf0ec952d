"""``tallymark mirror``: copies clusters, shows how far it is, translates offsets."""

from __future__ import annotations

import logging
from contextlib import ExitStack

import click

from tallymark.client.core.security.http import http_access
from tallymark.deployment import load
from tallymark.errors import UserError
from tallymark.mirror.mirrors import Mirrors
from tallymark.mirror.monitoring.metrics import MirrorMetrics
from tallymark.mirror.monitoring.status import mirror_status
from tallymark.mirror.offsets.checkpoints import open_groups, translate_group
from tallymark.mirror.offsets.translator import OffsetTranslator
from tallymark.mirror.settings import find_mirrors
from tallymark.processes.descriptors import raise_descriptor_limit
from tallymark.processes.process import configure_logging, die_with_parent, stop_signals
from tallymark.shell.output import json_option, print_line, show

_STATUS = (
    "mirror",
    "topic",
    "partition",
    "copied",
    "log_start",
    "log_end",
    "lag",
    "lag_ms",
    "owner",
    "trouble",
)
_TRANSLATED = (
    "kept",
    "topic",
    "partition",
    "source_offset",
    "target_topic",
    "target_partition",
    "target_offset",
)
_settings = click.option("--settings", type=click.Path(), help="The settings file.")


@click.group("mirror", invoke_without_command=True)
@_settings
@click.option("--from", "sources", multiple=True, help="A cluster to copy. Default: all there are.")
@click.option("--to", "target", help="The cluster to copy into.")
@click.option("--metrics-host", help="Where /metrics listens. Default: as the settings say.")
@click.option("--metrics-port", type=int, help="Its port; 0: a free one.")
@click.option("--status", is_flag=True, help="Only print how far the mirrors are.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    settings: str | None,
    sources: tuple[str, ...],
    target: str | None,
    metrics_host: str | None,
    metrics_port: int | None,
    status: bool,
    as_json: bool,
) -> None:
    """Copy topics of one or many clusters into another until SIGTERM or Ctrl-C."""
    if context.invoked_subcommand is not None:
        return
    if target is None:
        raise UserError("copy into which cluster?", "give --to")
    if status:
        _show_status(settings, sources, target, as_json)
    else:
        _copy(settings, sources, target, metrics_host, metrics_port)


@command.command("translate")
@_settings
@click.option("--from", "source", required=True, help="The source of the mirror.")
@click.option("--to", "target", required=True, help="Its target.")
@click.option(
    "-g", "--group", required=True, help="The group whose committed offsets are translated."
)
@click.option("--apply", is_flag=True, help="Commit them at the target, where they are ahead.")
@json_option
def translate(
    settings: str | None, source: str, target: str, group: str, apply: bool, as_json: bool
) -> None:
    """Print where a group of the source goes on at the target.

    Nothing is skipped; some messages may be read twice. Without a target offset only the beginning
    of the topic is safe, and that is what --apply commits.
    """
    deployment = load(settings)
    with ExitStack() as opened:
        translator = opened.enter_context(OffsetTranslator(deployment, source, target))
        here = open_groups(opened, deployment, source)
        there = open_groups(opened, deployment, target)
        rows, carried = [], 0
        for kept, ours, theirs in zip(("brokers", "zookeeper"), here, there, strict=True):
            found = translator.translate_all(ours.offsets(group))
            for one in found:
                row = {"group": group, "kept": kept, **one._asdict()}
                row["target_offset"] = row.pop("offset")
                rows.append(row)
            if found and apply:
                carried += translate_group(translator, ours, theirs, group)
    if not rows:
        raise UserError(
            f"group {group} has no offsets at {source} in topics that are mirrored to {target}",
            "see 'tallymark groups list'",
        )
    show(rows, _TRANSLATED, as_json)
    if apply:
        print_line(f"{carried} partitions committed at {target}", as_json)


def _show_status(
    settings: str | None, sources: tuple[str, ...], target: str, as_json: bool
) -> None:
    deployment = load(settings)
    rows = [
        row.row()
        for mirror in find_mirrors(deployment, sources, target)
        for row in mirror_status(deployment, mirror.source, mirror.target)
    ]
    show(rows, _STATUS, as_json)


def _copy(
    settings: str | None,
    sources: tuple[str, ...],
    target: str,
    metrics_host: str | None,
    metrics_port: int | None,
) -> None:
    configure_logging()
    die_with_parent()
    raise_descriptor_limit()
    deployment = load(settings)
    wanted = find_mirrors(deployment, sources, target)
    port = max(one.metrics_port for one in wanted) if metrics_port is None else metrics_port
    log = logging.getLogger("mirror")
    with stop_signals() as stopped, ExitStack() as opened:
        mirrors = opened.enter_context(Mirrors(deployment, wanted))
        if port >= 0:
            host = metrics_host or wanted[0].metrics_host
            access = http_access(
                deployment.security,
                "the mirror's metrics",
                host,
                any(one.metrics_allow_plaintext for one in wanted),
                "metrics_allow_plaintext = true of the mirror",
            )
            metrics = MirrorMetrics(mirrors.states, host, port, access)
            opened.callback(metrics.close)
            log.info("metrics on %s://%s/metrics", access.scheme, metrics.address)
        for one in wanted:
            log.info("ready %s to %s", one.source, one.target)
        mirrors.run(stopped)
        log.info("stopping")
