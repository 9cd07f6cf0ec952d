"""What the stack needs of a machine, one small check for each."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark.private_files import write_private
from tallymark.processes.checks.file_modes import check_modes
from tallymark.processes.checks.reach import Finding, reach
from tallymark.processes.free_ports import is_taken
from tallymark.processes.ports import listening
from tallymark.processes.supervisor.control import NotRunningError, ask
from tallymark.processes.supervisor.run import control_file
from tallymark.protocol.records import check as record_check

JAVA_AT_LEAST = 17
DISK_AT_LEAST = 1 << 30
STORE_AT_LEAST = 100 << 20
_SQLITE = "sqlite:///"


def run_checks(deployment: Deployment) -> list[Finding]:
    """Every check, in the order in which they are worth reading."""
    running = is_running(deployment)
    checks: list[Callable[[], list[Finding]]] = [
        check_python,
        check_java,
        lambda: check_packages(deployment),
        lambda: check_kernel(deployment),
        lambda: check_disk(deployment),
        lambda: check_modes(deployment),
        lambda: check_listeners(deployment),
        (lambda: check_reachable(deployment)) if running else (lambda: check_ports(deployment)),
    ]
    return [finding for check in checks for finding in check()]


def is_running(deployment: Deployment) -> bool:
    """Whether a supervisor of this deployment runs, even if it does not answer."""
    try:
        ask(control_file(deployment), {"do": "status"})
    except NotRunningError:
        return False
    except UserError:
        return True
    return True


def check_python() -> list[Finding]:
    """Python 3.11 or newer; older ones cannot import this package, so this never fails."""
    return [Finding("Python", "ok", f"{sys.version.split()[0]} ({sys.executable})")]


def check_java() -> list[Finding]:
    """Java 17 or newer, which ZooKeeper and Spark need."""
    do = "install one (Debian: apt-get install openjdk-17-jre-headless)"
    java = shutil.which("java")
    if java is None:
        return [Finding("Java", "failure", "there is no java on the PATH", do)]
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [Finding("Java", "failure", f"{java} does not run: {error}", do)]
    found = java_version(shown.stderr + shown.stdout)
    if found is None or found < JAVA_AT_LEAST:
        text = f"{java} is version {found or 'unknown'}, {JAVA_AT_LEAST} or newer is needed"
        return [Finding("Java", "failure", text, do)]
    return [Finding("Java", "ok", f"version {found} ({java})")]


def java_version(text: str) -> int | None:
    """The major version in what ``java -version`` prints; 1.8 is 8; None when there is none."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major


def check_packages(deployment: Deployment) -> list[Finding]:
    """The packages of each extra that the deployment needs on this machine; Spark's has the jars
    of ZooKeeper."""
    needed = {
        "registry": deployment.registry.embedded,
        "dashboards": deployment.dashboards.embedded,
        "spark": deployment.zookeeper.embedded,
    }
    packages = {"registry": "fastapi", "dashboards": "jinja2", "spark": "pyspark"}
    extras = {extra: packages[extra] for extra, wanted in needed.items() if wanted}
    findings = [Finding("tallymark", "ok", version("tallymark"))]
    for extra, package in extras.items():
        if importlib.util.find_spec(package) is None:
            findings.append(
                Finding(
                    f"extra {extra}",
                    "failure",
                    f"{package} is not installed",
                    f"pip install 'tallymark[{extra}]'",
                )
            )
        else:
            findings.append(Finding(f"extra {extra}", "ok", f"{package} {_version(package)}"))
    return findings


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(no version)"


def check_kernel(deployment: Deployment) -> list[Finding]:
    """Whether brokers here have the compiled walk over records, and that of this version."""
    if not any(cluster.embedded for cluster in deployment.clusters):
        return []
    what, do = "record kernel", "make kernel (it needs a C compiler), or record.validation=full"
    if not record_check.COMPILED:
        text = "not compiled: of a batch that is not compressed brokers check the first record only"
        return [Finding(what, "warning", text, do)]
    if record_check.is_stale():
        return [Finding(what, "warning", "compiled from another version of its source", do)]
    return [Finding(what, "ok", "compiled")]


def check_disk(deployment: Deployment) -> list[Finding]:
    """The data folder can be written, and its disk has room."""
    folder = deployment.data_dir.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        write_private(probe, "1")
        probe.unlink()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        do = "make it writable, or give another data_dir in the settings"
        return [Finding("disk", "failure", f"cannot write to {folder}: {error.strerror}", do)]
    text = f"{free / (1 << 30):.1f} GiB free below {folder}"
    if free < DISK_AT_LEAST:
        return [Finding("disk", "failure", text, "free at least 1 GiB")]
    return [Finding("disk", "ok", text), *_check_stores(deployment)]


def _check_stores(deployment: Deployment) -> list[Finding]:
    """Stores on SQLite that are not in the data folder may be on another disk."""
    findings: list[Finding] = []
    for what, address in (
        ("audit store", deployment.audit.store),
        ("registry store", deployment.registry.store),
    ):
        folder = Path(address.removeprefix(_SQLITE)).absolute().parent
        if not address.startswith(_SQLITE) or not folder.is_dir():
            continue
        free = shutil.disk_usage(folder).free
        text = f"{free / (1 << 20):.0f} MiB free below {folder} ({what})"
        little = free < STORE_AT_LEAST
        do = "make room there: what cannot be stored waits" if little else ""
        findings.append(Finding("disk", "warning" if little else "ok", text, do))
    return findings


def check_listeners(deployment: Deployment) -> list[Finding]:
    """Brokers of one cluster share its settings: several on one machine cannot share an address."""
    return [
        Finding(
            "listeners",
            "failure",
            f"the {len(cluster.brokers)} brokers of {cluster.name} would all listen on {text}",
            "leave listeners out of broker_settings: each listens on its own port, secured as "
            '"listener.security.protocol.map" = "PLAINTEXT:SASL_PLAINTEXT" says',
        )
        for cluster in deployment.clusters
        if cluster.embedded and cluster.kind == "tallymark" and len(cluster.brokers) > 1
        if (text := str(cluster.broker_settings.get("listeners", "")))
    ]


def check_ports(deployment: Deployment) -> list[Finding]:
    """Every port the stack would listen on is free."""
    findings: list[Finding] = []
    for spec in listening(deployment):
        if is_taken(spec.host, spec.port):
            do = "stop what listens there, change the settings, or start with --free-ports"
            findings.append(Finding("port", "failure", f"{spec.port} ({spec.name}) is taken", do))
        else:
            findings.append(Finding("port", "ok", f"{spec.port} ({spec.name}) is free"))
    return findings


def check_reachable(deployment: Deployment) -> list[Finding]:
    """Every part of the running stack accepts connections."""
    return [reach(deployment, spec) for spec in listening(deployment)]
