"""``tallymark registry``."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from tallymark.client.core.security.http import http_access
from tallymark.deployment import load
from tallymark.processes.process import run_process
from tallymark_schema_registry.access.log_in import registry_log_in
from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.web.responses import Profile

_log = logging.getLogger("registry")


@click.command("registry")
@click.option("--settings", type=click.Path(dir_okay=False), help="The deployment's settings file.")
@click.option(
    "--access-log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where requests are logged, in Apache's combined format "
    "[default: registry-access.log in the log folder].",
)
def command(settings: str | None, access_log: Path | None) -> None:
    """Serve the Avro schema registry until SIGTERM or Ctrl-C."""
    deployment = load(settings)
    servers: list[RegistryServer] = []

    def start() -> RegistryServer:
        access = http_access(
            deployment.security,
            "the registry",
            deployment.registry.host,
            deployment.registry.allow_plaintext,
            "registry.allow_plaintext = true",
            (deployment.registry.advertised_host,),
            registry_log_in(
                deployment.registry.access_file,
                deployment.security.users_file,
                deployment.registry.tokens,
            ),
        )
        server = RegistryServer(
            deployment.registry_store,
            host=deployment.registry.host,
            port=deployment.registry.port,
            access_log=access_log or deployment.log_dir / "registry-access.log",
            cluster_id=deployment.name,
            profile=Profile(deployment.registry.response_profile),
            access=access,
        )
        _log.info("ready %s", server.url)
        servers.append(server)
        return server

    run_process("registry", start, lambda: servers[0].check())
