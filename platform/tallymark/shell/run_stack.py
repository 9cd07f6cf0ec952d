"""Run a stack in the foreground of a command, with one line for each change of a process.

``tallymark up``, ``tallymark attach`` and other commands that start a deployment call this.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path

import click

from tallymark.deployment import Deployment
from tallymark.deployment.load import RESOLVED
from tallymark.errors import UserError
from tallymark.processes.checks.machine import (
    check_disk,
    check_java,
    check_listeners,
    check_packages,
    check_ports,
    is_running,
)
from tallymark.processes.descriptors import raise_descriptor_limit
from tallymark.processes.process import stop_signals
from tallymark.processes.supervisor.plan import ProcessSpec
from tallymark.processes.supervisor.run import POLL_SECONDS, Supervisor
from tallymark.processes.supervisor.state import Child, State
from tallymark.processes.zookeeper_credentials import password_file, prepare_credentials


def run_stack(
    deployment: Deployment,
    announce: Callable[[], None],
    serves: Callable[[str], None] = lambda name: None,
) -> None:
    """Start what the deployment embeds and keep it running until SIGINT or SIGTERM; ``announce`` is
    called once, when all of it serves, ``serves`` with the name of each process that does, before
    those that wait for it are started. UserError: it cannot be started here, and why."""

    def noted(spec: ProcessSpec, child: Child, log: Path) -> None:
        report(spec, child, log)
        if child.state is State.READY:
            serves(spec.name)

    raise_descriptor_limit()
    refuse_early(deployment)
    supervisor = Supervisor(deployment, noted)
    supervisor.start()
    if prepare_credentials(deployment):
        click.echo(f"ZooKeeper is closed to others from now on: {password_file(deployment)}")
    with stop_signals() as stopped:
        try:
            announced = False
            while not stopped.is_set():
                supervisor.step()
                _give_up(supervisor)
                if not announced and supervisor.all_ready():
                    announced = True
                    announce()
                time.sleep(POLL_SECONDS)
            click.echo("stopping")
        finally:
            supervisor.stop()


def report(spec: ProcessSpec, child: Child, log: Path) -> None:
    """One line for each change of a process that a person would want to know."""
    if child.state is State.READY:
        click.echo(f"{spec.name:<26} ready      {spec.address}")
    elif child.state in (State.BACKOFF, State.GIVEN_UP):
        wait = f", again in {child.delay_ms / 1000:g} s" if child.state is State.BACKOFF else ""
        click.echo(f"{spec.name:<26} died       {child.reason}{wait} (log: {log})", err=True)
    elif child.state is State.HELD:
        click.echo(f"{spec.name:<26} held       {child.reason}")


def down_command(deployment: Deployment) -> str:
    """The command that ends the stack: what was written at its start names it from any folder."""
    written = deployment.data_dir.absolute() / RESOLVED.name
    named = "" if written == RESOLVED.absolute() else f" --settings {shlex.quote(str(written))}"
    return f"tallymark down{named}"


def refuse_early(deployment: Deployment) -> None:
    """One clear line instead of ten processes that cannot start: UserError, and what to do."""
    if is_running(deployment):  # its own ports are taken, too: that would be a riddle
        raise UserError(
            f"the stack of {deployment.data_dir.absolute()} runs already",
            f"tallymark status shows it; stop it with {down_command(deployment)}, or give another "
            "--data",
        )
    checks = [check_packages(deployment), check_disk(deployment), check_listeners(deployment)]
    checks.append(check_ports(deployment))
    if deployment.zookeeper.embedded or _starts_apache_kafka(deployment):
        checks.append(check_java())
    for findings in checks:
        for finding in findings:
            if finding.grade == "failure":
                raise UserError(f"cannot start: {finding.what}: {finding.text}", finding.do)


def _starts_apache_kafka(deployment: Deployment) -> bool:
    return any(one.embedded and one.kind == "apache-kafka" for one in deployment.clusters)


def _give_up(supervisor: Supervisor) -> None:
    for child in supervisor.given_up():
        log = supervisor.log_path(child.name)
        raise UserError(f"{child.name} does not start: {child.reason}", f"see {log}")
