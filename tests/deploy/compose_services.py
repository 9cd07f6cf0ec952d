"""Starts the services of docker-compose.yml as plain processes: exact command, environment, health.

Run inside namespaces of its own (``unshare --map-root-user --mount --net``), where it may do what
an engine does: give every service's name an address (all loopback), mount the volumes, publish no
port to anybody. Prints one JSON object: service -> "healthy" or what went wrong.
"""

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
HEALTHY_WITHIN_S = 240.0
ROOT = Path(__file__).parent.parent.parent


def main() -> None:
    scratch = Path(sys.argv[1])
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    services = {name: one for name, one in services.items() if "profiles" not in one}
    be_an_engine(scratch, list(services))
    see_that_it_is_contained(services["registry"])
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        health = start_in_order(services, processes, scratch)
    finally:
        for process in reversed(processes.values()):
            process.terminate()
        for process in processes.values():
            process.wait(30)
    print(json.dumps(health))


def be_an_engine(scratch: Path, names: list[str]) -> None:
    """Loopback up, one address for every service's name, and the volumes of the services."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    hosts = scratch / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {socket.gethostname()} {' '.join(names)}\n")
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/srv"], check=True)
    for folder in ("settings", "tallymark", "volumes"):
        Path("/srv", folder).mkdir()
    subprocess.run(["mount", "--bind", ROOT / "deploy/compose", "/srv/settings"], check=True)


def start_in_order(
    services: dict[str, Any], processes: dict[str, subprocess.Popen[bytes]], scratch: Path
) -> dict[str, str]:
    """Each service once those it depends on are healthy, as Compose does, several at a time."""
    health: dict[str, str] = {}
    end = time.monotonic() + HEALTHY_WITHIN_S
    while len(health) < len(services) and time.monotonic() < end:
        for name, service in services.items():
            needs = service.get("depends_on", {})
            if name not in processes and all(health.get(one) == "healthy" for one in needs):
                processes[name] = start(service, scratch / f"{name}.log")
        for name in processes.keys() - health.keys():
            if processes[name].poll() is not None:
                said = (scratch / f"{name}.log").read_text()[-2000:]
                return {**health, name: f"exit {processes[name].returncode}: {said}"}
            if is_healthy(services[name]):
                health[name] = "healthy"
    return {name: health.get(name, "never healthy") for name in services}


def start(service: dict[str, Any], log_path: Path) -> subprocess.Popen[bytes]:
    with log_path.open("wb") as log:
        return subprocess.Popen(
            [*contained(service), *service["command"]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **service["environment"]},
        )


def contained(service: dict[str, Any]) -> list[str]:
    """A command in front that gives a service a view of its own, as the engine does: its volumes, a
    file system that cannot be written to, an empty /tmp, and no capability."""
    steps = [f"mount --bind {folder} {place}" for folder, place in volumes(service)]
    steps += [f"mount -t tmpfs none {one.split(':')[0]}" for one in service["tmpfs"]]
    if service["read_only"]:
        steps += ["mount -o remount,ro,bind /"]
        steps += ["mount -o remount,ro,bind /srv"]
    steps += [f"cd {service.get('working_dir', '/srv/tallymark')}"]
    drop = ["setpriv", "--no-new-privs"]
    if service["cap_drop"] == ["ALL"]:
        drop += ["--bounding-set=-all", "--inh-caps=-all"]
    script = "; ".join(["set -e", *steps, 'exec "$@"'])
    return ["unshare", "--mount", "sh", "-c", script, "sh", *drop]


def see_that_it_is_contained(service: dict[str, Any]) -> None:
    """A service writes into its volume and /tmp, and nowhere else: or this proves nothing."""
    for place, writes in {
        "/srv/tallymark": True,
        "/tmp": True,
        "/srv": False,
        "/var": False,
    }.items():
        command = [*contained(service), "touch", f"{place}/written"]
        done = subprocess.run(command, capture_output=True)
        assert (done.returncode == 0) == writes, (place, done)


def volumes(service: dict[str, Any]) -> list[tuple[Path, str]]:
    """The named volumes of a service and where they are mounted; made where they are new."""
    found: list[tuple[Path, str]] = []
    for one in service["volumes"]:
        name, place, *_ = one.split(":")
        if not name.startswith("."):  # the settings, which are there already
            folder = Path("/srv/volumes", name)
            folder.mkdir(exist_ok=True)
            found.append((folder, place))
    return found


def is_healthy(service: dict[str, Any]) -> bool:
    kind, *command = service["healthcheck"]["test"]
    assert kind == "CMD"
    environment = {**os.environ, **service["environment"]}
    return subprocess.run(command, env=environment, capture_output=True).returncode == 0


if __name__ == "__main__":
    main()
