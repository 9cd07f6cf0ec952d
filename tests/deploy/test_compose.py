"""docker-compose.yml fits the Compose schema, and what it starts really serves."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_pydantic.models import ComposeSpecification
from project import ROOT
from pydantic import ValidationError

from tallymark.deployment import load
from tallymark.processes.supervisor.plan import plan

MONITORING = {"prometheus", "grafana"}
"""Services that are not ours, by a profile, each with a volume of its own."""
UNSHARE = ["unshare", "--map-root-user", "--mount", "--net"]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    # The schema allows x-anything; the model of it does not know how to say so.
    return {key: value for key, value in content.items() if not key.startswith("x-")}


def test_the_file_fits_the_schema(compose: dict[str, Any]) -> None:
    ComposeSpecification.model_validate(compose)


def test_the_schema_refuses_what_compose_does_not_know(compose: dict[str, Any]) -> None:
    broken = {**compose, "services": {"x": {**compose["services"]["registry"], "comand": []}}}
    with pytest.raises(ValidationError):
        ComposeSpecification.model_validate(broken)


def test_every_process_of_the_deployment_is_a_service(compose: dict[str, Any]) -> None:
    deployment = load(ROOT / "deploy/compose/deployment.toml")
    commands = [tuple(one.get("command", ())) for one in compose["services"].values()]
    for spec in plan(deployment):
        assert ("tallymark", *spec.arguments) in commands, spec.name
    assert "spark-master" in compose["services"]


def test_the_monitoring_starts_by_a_profile_alone(compose: dict[str, Any]) -> None:
    """Its images are of others, and have a version; what they read of the repository is there, and
    what they ask of each other and of the stack is where that listens."""
    services = compose["services"]
    assert {n for n, one in services.items() if one.get("profiles") == ["monitoring"]} == MONITORING
    for name in MONITORING:
        service = services[name]
        assert ":" in service["image"], name
        assert not service["image"].endswith(":latest"), name
        for volume in service["volumes"]:
            source, _, *how = volume.split(":")
            if source.startswith("."):
                assert (ROOT / source).exists(), volume
                assert how == ["ro"], volume
            else:
                assert source in compose["volumes"], volume
        assert set(service["depends_on"]) <= services.keys()
    prometheus = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    mounted = {volume.split(":")[1] for volume in services["prometheus"]["volumes"]}
    assert set(prometheus["rule_files"]) <= mounted
    deployment = load(ROOT / "deploy/compose/deployment.toml")
    listening = {f"{spec.host}:{spec.port}" for spec in plan(deployment) if spec.port}
    targets = {
        target
        for job in prometheus["scrape_configs"]
        for some in job["static_configs"]
        for target in some["targets"]
    }
    assert targets <= listening | {"127.0.0.1:9090"}
    assert len(targets) == 3


def test_grafana_finds_its_data_and_its_dashboard(compose: dict[str, Any]) -> None:
    folder = ROOT / "deploy/grafana/provisioning"
    (source,) = yaml.safe_load((folder / "datasources/prometheus.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["type"] == "prometheus"
    (provider,) = yaml.safe_load((folder / "dashboards/tallymark.yml").read_text())["providers"]
    mounted = [volume.split(":") for volume in compose["services"]["grafana"]["volumes"]]
    place = provider["options"]["path"]
    boards = [ROOT / one[0] for one in mounted if one[1].startswith(f"{place}/")]
    assert [json.loads(path.read_text())["uid"] for path in boards] == ["tallymark-audit"]
    home = compose["services"]["grafana"]["environment"][
        "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"
    ]
    assert home in [one[1] for one in mounted]


def test_ports_are_published_on_loopback_only(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name


def test_every_service_has_a_health_check_and_its_settings(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert "healthcheck" in service or service["profiles"] == ["job"], name
        if name in MONITORING:
            continue
        assert service["environment"]["TALLYMARK_SETTINGS"] == "/srv/settings/deployment.toml"
        assert "./deploy/compose:/srv/settings:ro" in service["volumes"], name


def test_what_a_process_keeps_is_in_a_volume_of_its_own(compose: dict[str, Any]) -> None:
    """One volume held everything: every broker could read and write the logs of the others, and
    ZooKeeper's."""
    place = tomllib.loads((ROOT / "deploy/compose/deployment.toml").read_text())["data_dir"]
    users: dict[str, set[str]] = {}
    for name, service in compose["services"].items():
        for volume in service["volumes"]:
            kept, where, *_ = volume.split(":")
            if where == place:
                users.setdefault(kept, set()).add(name)
    shared = {kept for kept, names in users.items() if len(names) > 1}
    assert shared == {"audit"}
    assert users.keys() == compose["volumes"].keys() - MONITORING
    audit = ["collector-dc1", "collector-dc2", "collector-aggregate", "dashboards", "reconcile"]
    assert users["audit"] == set(audit)
    keepers = ["zookeeper", "broker-dc1", "broker-dc2", "broker-aggregate", "registry"]
    assert all(users[name] == {name} for name in keepers)


def test_the_guide_copies_old_data_into_every_volume(
    compose: dict[str, Any], tmp_path: Path
) -> None:
    """Who upgraded a stack with one volume for all found it empty: the volumes were new, and no
    page said how the data get there. The page's commands run here on folders."""
    page = (ROOT / "docs/operations.md").read_text()
    script = next(
        part for part in page.split("```") if "docker volume" not in part and "copy()" in part
    )
    old = tmp_path / "tallymark_data"
    kept = {
        "zookeeper": ["zookeeper/version-2"],
        **{f"broker-{name}": [f"{name}/broker-0"] for name in ("dc1", "dc2", "aggregate")},
        "registry": ["registry.db", "registry.db-wal"],
        "audit": ["audit.db", "audit.db-wal", "journal/one", "lake/one"],
    }
    for name in (name for names in kept.values() for name in names):
        (old / name).parent.mkdir(parents=True, exist_ok=True)
        (old / name).write_text(name)
    for volume in compose["volumes"]:
        (tmp_path / f"tallymark_{volume}").mkdir()
    engine = """docker() {
        [ "$1" = run ] || return 0
        from=${6%%:*}; to=${8%%:*}; program=${12}
        program=$(printf %s "$program" |
            sed "s#/from#$PWD/$from#; s# /to# $PWD/$to#g; s#chown#: chown#")
        sh -c "$program"
    }
    """
    done = subprocess.run(["bash", "-euc", engine + script], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert set(kept) == set(compose["volumes"]) - MONITORING, "Prometheus and Grafana are new"
    for volume, names in kept.items():
        home = tmp_path / f"tallymark_{volume}"
        found = sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.is_file())
        assert found == sorted(names)


def test_nobody_can_do_more_than_needed(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    assert "\nUSER 10001:10001\n" in dockerfile


def test_health_checks_start_no_python_and_try_what_doctor_would(compose: dict[str, Any]) -> None:
    """An idle stack took more than a core for its health checks alone: every five seconds eleven
    containers started Python, 0.6 s of processor time each. The test above was content with any
    check, and the one below with how it ended. Now bash opens the same addresses that ``tallymark
    doctor --reach`` would: 2 ms each."""
    deployment = load(ROOT / "deploy/compose/deployment.toml")
    specs = {spec.name: spec for spec in plan(deployment)}
    services = {tuple(one.get("command", ())): one for one in compose["services"].values()}
    for spec in specs.values():
        check = services["tallymark", *spec.arguments]["healthcheck"]
        wanted = [spec] if spec.port else [specs[name] for name in spec.after]
        opened = " && ".join(f"</dev/tcp/{one.host}/{one.port}" for one in wanted)
        assert check["test"] == ["CMD", "bash", "-c", opened], spec.name
        assert int(check["interval"].removesuffix("s")) >= 5


def test_that_check_sees_who_listens_and_who_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check = ["bash", "-c", f"</dev/tcp/127.0.0.1/{port}"]
        assert subprocess.run(check, capture_output=True).returncode == 0
    assert subprocess.run(check, capture_output=True).returncode != 0


@pytest.mark.process
@pytest.mark.soak
@pytest.mark.timeout(600)
def test_every_service_starts_and_becomes_healthy(tmp_path: Path) -> None:
    if not shutil.which("unshare") or subprocess.run([*UNSHARE, "true"]).returncode:
        pytest.skip("this machine does not let us make namespaces (unshare)")
    if not shutil.which("curl"):
        pytest.skip("curl, which the image has for health checks, is not on this machine")
    if Path(sys.executable).is_relative_to("/tmp"):
        pytest.skip(
            "this checkout is below /tmp, which is empty for a service: it had no tallymark"
        )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [*UNSHARE, sys.executable, str(Path(__file__).with_name("compose_services.py")), tmp_path],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stderr
    health = json.loads(done.stdout.splitlines()[-1])
    assert {name: said for name, said in health.items() if said != "healthy"} == {}
    assert {"zookeeper", "spark-worker", "collector-aggregate"} <= set(health)
