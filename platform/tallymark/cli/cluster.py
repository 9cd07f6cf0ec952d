"""``tallymark cluster``: who is in a cluster, and what its brokers speak."""

from __future__ import annotations

from typing import Any

import click

from tallymark.cli.output import end, json_option, show, tell
from tallymark.cli.target import cluster_options, take_target
from tallymark.client.admin.admin import Admin


@click.command("cluster")
@click.option("--api-versions", is_flag=True, help="Which versions of which requests they serve.")
@json_option
@cluster_options
def command(api_versions: bool, as_json: bool, **options: Any) -> None:
    """Print a cluster's id, its controller and its brokers."""
    with Admin(**take_target(options).client) as admin:
        if api_versions:
            served = admin.api_versions()
            rows: list[dict[str, Any]] = [
                {"broker": broker, "api": name, "lowest": low, "highest": high}
                for broker, spans in served.done.items()
                for name, (low, high) in spans.items()
            ]
            show(rows, ("broker", "api", "lowest", "highest"), as_json)
            end(len(served), served.errors)
            return
        cluster = admin.describe_cluster()
    if not as_json:
        tell(f"cluster {cluster.cluster_id or 'without id'}\t{len(cluster.brokers)} brokers")
    rows = [
        {
            "cluster": cluster.cluster_id,
            "broker": broker.id,
            "address": broker.address,
            "rack": broker.rack,
            "controller": broker.id == cluster.controller,
            "fenced": broker.fenced,
        }
        for broker in cluster.brokers
    ]
    show(rows, ("broker", "address", "rack", "controller", "fenced"), as_json)
