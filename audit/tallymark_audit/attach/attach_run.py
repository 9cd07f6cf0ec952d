"""What ``tallymark attach`` does, step by step; the other files of this folder decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from tallymark.client import Admin
from tallymark.client.core.security.deployment import ConnectionSettings, security_settings
from tallymark.client.core.security.security import SecuritySettings
from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark.deployment.load import RESOLVED
from tallymark.errors import UserError
from tallymark.processes.checks.machine import is_running
from tallymark.processes.ports import with_free_ports
from tallymark.processes.process import die_with_parent
from tallymark.shell.command_config import read_command_config
from tallymark.shell.confirm import confirmed
from tallymark.shell.run_stack import down_command, refuse_early, run_stack
from tallymark_audit.attach.found import ClusterFound
from tallymark_audit.attach.inspection import inspect_cluster
from tallymark_audit.attach.logins import LogIn, log_in, write_secrets
from tallymark_audit.attach.plan import AttachPlan, make_attach_plan, settings_of
from tallymark_audit.attach.request import AttachRequest, ClusterAddress, ClusterRequest
from tallymark_audit.attach.resume import differences
from tallymark_audit.attach.texts import found_lines, settings_text
from tallymark_audit.attach.unclaimed import application_lines, unclaimed_lines
from tallymark_audit.events.audit_topic import topic_configs
from tallymark_audit.model.edges import AUDIT_TOPIC

_DAY_MS = 86_400_000


class AttachRun:
    """One call of the command. ``there`` are the settings that ``path`` has already."""

    def __init__(
        self,
        path: Path,
        there: Deployment | None,
        request: AttachRequest,
        log_ins: Mapping[str, LogIn],
    ) -> None:
        self._path = path
        self._there = there
        self._request = request
        self._log_ins = log_ins
        self._found: Sequence[ClusterFound] = ()

    def decide(self) -> AttachPlan:
        """Look at every cluster, print what is there, and decide. UserError: it cannot be done."""
        found: list[ClusterFound] = []
        for one in self._request.clusters:
            click.echo(f"looking at {one.name} ({one.address.bootstrap_servers})")
            found.append(inspect_cluster(one.address, self._connection(one), self._audited()))
            for line in found_lines(found[-1]):
                click.echo(f"  {line}")
        self._found = found
        if self._there is not None:
            if said := differences(self._there, self._request, found):
                raise UserError(
                    f"{self._path} is there already and says otherwise: {'; '.join(said)}",
                    "change it there, or give another file with --settings (and --data)",
                )
            click.echo(f"going on with {self._path}")
        decided = make_attach_plan(self._there or settings_of(self._request, found), found)
        for line in decided.warnings:
            click.echo(f"warning: {line}")
        return decided

    def refuse_early(self, decided: AttachPlan, free_ports: bool) -> None:
        """UserError before anything is changed: what could not be started here."""
        if is_running(decided.deployment):
            raise UserError(
                f"the audit of {decided.deployment.name} runs already, with its data in "
                f"{decided.deployment.data_dir}",
                f"tallymark status shows it; stop it with {down_command(decided.deployment)}",
            )
        refuse_early(_running(decided, free_ports))

    def make_topics(self, decided: AttachPlan, *, dry_run: bool, yes: bool) -> None:
        """Make the audit topics that are not there, if that is confirmed."""
        if not decided.to_make:
            return
        kept = decided.deployment.audit.retention_ms
        where = " and ".join(one.cluster for one in decided.to_make)
        what = f"make the topic {AUDIT_TOPIC} on {where} (1 partition, kept {kept // _DAY_MS} days)"
        if not confirmed(what, dry_run=dry_run, yes=yes):
            return
        request = {one.name: one for one in self._request.clusters}
        for one in decided.to_make:
            with Admin(**self._connection(request[one.cluster])) as admin:
                admin.create_topic(
                    AUDIT_TOPIC, 1, topic_configs(kept), replication_factor=one.replicas
                )
            click.echo(f"made the topic {AUDIT_TOPIC} on {one.cluster}")

    def keep(self, decided: AttachPlan) -> None:
        """Write passwords to files of their own, and the settings, if they are new."""
        for one in self._log_ins.values():
            write_secrets(one.secrets)
            for path in one.secrets:
                click.echo(f"wrote {path}, which only you can read")
        if self._there is None:
            try:
                with self._path.open("x", encoding="utf-8") as file:
                    file.write(settings_text(decided.deployment))
            except FileExistsError:
                raise UserError(
                    f"{self._path} was changed meanwhile by another process",
                    "look, and start again",
                ) from None
            except OSError as error:
                raise UserError(
                    f"cannot write {self._path}: {error.strerror}", "give --settings FILE"
                ) from error
            click.echo(f"wrote the settings to {self._path}")

    def run(self, decided: AttachPlan, free_ports: bool) -> None:
        """Collectors and dashboards, until Ctrl-C."""
        die_with_parent()
        deployment = _running(decided, free_ports)
        run_stack(deployment, lambda: self.announce(deployment, started=True, moved=free_ports))

    def announce(self, deployment: Deployment, *, started: bool, moved: bool = False) -> None:
        """What to do now. ``moved``: onto ports that only the settings of the running stack name,
        beside its data."""
        settings = deployment.data_dir / RESOLVED.name if moved else self._path
        if started:
            click.echo(f"\nThe audit of {deployment.name} is up: {deployment.dashboards.url}")
            ended = f"Ctrl-C stops it, or in another terminal: {down_command(deployment)}"
            click.echo(f"{ended}; the same command goes on.")
        else:
            click.echo("start it with the same command without --no-start")
        now = now_ms()
        for line in (
            *application_lines(deployment),
            *unclaimed_lines(deployment, self._found[0], now),
            f"in another terminal: export TALLYMARK_SETTINGS={settings.absolute()}",
            "  tallymark audit overview",
        ):
            click.echo(line)

    def _audited(self) -> str:
        """The regular expression of what is audited."""
        return self._there.audit.topics if self._there else self._request.topics or ".*"

    def _connection(self, one: ClusterRequest) -> ConnectionSettings:
        """As --command-config says, else as the settings that are there."""
        security: SecuritySettings = {}
        if one.name in self._log_ins:
            security = self._log_ins[one.name].given
        elif self._there is not None and one.name in {c.name for c in self._there.clusters}:
            security = security_settings(self._there.cluster(one.name).security)
        return {"bootstrap_servers": one.address.bootstrap_servers, **security}


def _running(decided: AttachPlan, free_ports: bool) -> Deployment:
    return with_free_ports(decided.deployment) if free_ports else decided.deployment


def log_ins_of(
    where: Sequence[ClusterAddress], first: str | None, others: Sequence[str], folder: Path
) -> dict[str, LogIn]:
    """The log-ins by cluster: ``first`` is for all, unless ``others`` name those of the downstream
    ones. UserError: files that cannot be read, or not as many as clusters."""
    if others and len(others) != len(where) - 1:
        raise UserError(
            f"--downstream is given {len(where) - 1} times, --downstream-command-config "
            f"{len(others)} times",
            "give one for each, in the same order",
        )
    below: Sequence[str | None] = others or [first] * (len(where) - 1)
    files = [first, *below]
    return {
        one.name: log_in(read_command_config(file), one.name, folder)
        for one, file in zip(where, files, strict=True)
        if file
    }
