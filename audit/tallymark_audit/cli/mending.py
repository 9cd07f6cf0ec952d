"""``tallymark audit repair``."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich.table import Table

from tallymark.client import Producer, SimpleConsumer
from tallymark.client.security.deployment import ConnectionSettings, connection_settings
from tallymark.deployment import Deployment, load
from tallymark.errors import UserError
from tallymark_audit.cli import options
from tallymark_audit.cli.tables import console, plain
from tallymark_audit.collector.collector import wall_clock
from tallymark_audit.edges import derive_edges
from tallymark_audit.repair import Mended, Plan, apply_plan, make_plan, read_plan, write_plan
from tallymark_audit.repair.plan import to_json
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.tables import repairs
from tallymark_audit.text import utc

INCOMPLETE = 3
"""Exit code: something could not be repaired."""


@click.command()
@options.settings
@options.edge
@options.period
@click.option(
    "--plan",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the plan to this file; with --apply carry this one out, if it is there.",
)
@click.option("--apply", "carry_out", is_flag=True, help="Copy the missing messages.")
@options.as_json
def repair(
    settings: str | None,
    edge: str | None,
    start: int | None,
    end: int | None,
    path: Path | None,
    carry_out: bool,
    as_json: bool,
) -> None:
    """Copy exactly the missing messages from upstream, once more looking whether they are.

    Without --apply it only says what it would do. Exits with 3 if some could not be repaired.
    """
    deployment = load(settings)
    with open_store(deployment.audit_store) as store:
        if carry_out and path is not None and path.exists():
            plan = read_plan(path)
        else:
            with store.read() as connection:
                edges = derive_edges(deployment)
                plan = make_plan(connection, edges, wall_clock(), start, end, edge)
            if path is not None:
                write_plan(plan, path)
        if not carry_out:
            _show_plan(plan, as_json)
            return
        with ExitStack() as stack:
            results = apply_plan(plan, _Clusters(deployment, stack))
        _record(store, results)
    _show_results(results, as_json)
    if any(result.outcome not in ("repaired", "present") for result in results):
        raise click.exceptions.Exit(INCOMPLETE)


@dataclass
class _Clusters:
    """Opens clusters as they are needed; the stack closes them."""

    deployment: Deployment
    stack: ExitStack
    _readers: dict[str, SimpleConsumer] = field(default_factory=dict[str, SimpleConsumer])
    _producers: dict[str, Producer] = field(default_factory=dict[str, Producer])

    def reader(self, cluster: str) -> SimpleConsumer:
        if cluster not in self._readers:
            reader = SimpleConsumer(**self._connection(cluster), client_id="tallymark-audit-repair")
            self._readers[cluster] = self.stack.enter_context(reader)
        return self._readers[cluster]

    def producer(self, cluster: str) -> Producer:
        if cluster not in self._producers:
            producer = Producer(
                **self._connection(cluster),
                client_id="tallymark-audit-repair",
                stamp=False,
                interceptors=[],
            )
            self._producers[cluster] = self.stack.enter_context(producer)
        return self._producers[cluster]

    def _connection(self, cluster: str) -> ConnectionSettings:
        try:
            return connection_settings(self.deployment.cluster(cluster))
        except KeyError as error:
            raise UserError(str(error.args[0]), "the plan is of another deployment") from error


def _record(store: Store, results: list[Mended]) -> None:
    now = wall_clock()
    with store.write() as connection:
        for result in results:
            item = result.item
            connection.execute(
                repairs.insert().values(
                    at=now,
                    edge=item.edge,
                    topic=item.key.topic,
                    window=item.key.window,
                    partition=item.key.partition,
                    server=item.key.server,
                    instance=item.key.instance,
                    sequences=item.missing.to_list(),
                    copied=result.copied.size,
                    present=result.present.size,
                    outcome=result.outcome,
                    reason=result.reason,
                )
            )


def _show_plan(plan: Plan, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(to_json(plan), indent=2))
        return
    if not plan.items:
        click.echo("nothing is missing: there is nothing to repair")
        return
    table = Table("window", "edge", "topic", "server", "missing", "sequences", "plan", box=None)
    for item in plan.items:
        table.add_row(
            utc(item.key.window),
            plain(item.edge),
            plain(item.key.topic),
            plain(item.key.server or "(no stamp)"),
            str(item.count),
            str(item.missing)[:60],
            plain(
                f"not possible: {item.refused}" if item.refused else f"copy from {item.upstream}"
            ),
        )
    console().print(table)
    click.echo(f"{plan.count} messages can be copied; --apply does it")


def _show_results(results: list[Mended], as_json: bool) -> None:
    copied = sum(result.copied.size for result in results)
    if as_json:
        found = [
            {
                "edge": result.item.edge,
                **result.item.key._asdict(),
                "outcome": result.outcome,
                "copied": result.copied.to_list(),
                "present": result.present.to_list(),
                "gone": result.gone.to_list(),
                "reason": result.reason,
            }
            for result in results
        ]
        click.echo(json.dumps({"copied": copied, "results": found}, indent=2))
        return
    table = Table("window", "edge", "topic", "server", "copied", "there", "outcome", "", box=None)
    for result in results:
        key = result.item.key
        table.add_row(
            utc(key.window),
            plain(result.item.edge),
            plain(key.topic),
            plain(key.server or "(no stamp)"),
            str(result.copied.size),
            str(result.present.size),
            result.outcome,
            plain(result.reason),
        )
    if results:
        console().print(table)
    click.echo(f"{copied} messages copied and verified")
