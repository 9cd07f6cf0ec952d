"""Prometheus and Grafana as they are delivered: checked by Prometheus' own tool where there is one
(Debian: ``apt-get install prometheus``), and the board's shape everywhere. That rules and panels
name metrics which are served is in ``tests/audit/metrics/test_audit_metrics.py``."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
BOARD = DEPLOY / "grafana" / "tallymark-audit.json"
BIN = Path(sys.prefix) / "bin"  # deploy/ensure-promtool puts it there
KINDS = {"stat", "timeseries", "table"}


def promtool(*arguments: str) -> str:
    program = shutil.which("promtool") or shutil.which("promtool", path=str(BIN))
    if program is None:
        pytest.skip("no promtool on this machine")
    ran = subprocess.run(
        [program, *arguments], cwd=DEPLOY, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_promtool_reads_the_rules_and_the_scrape_configuration(tmp_path: Path) -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["rule_files"] = [str(DEPLOY / "prometheus-rules.yml")]  # the compose file mounts them
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    assert "SUCCESS" in promtool("check", "config", str(tmp_path / "prometheus.yml"))
    assert "SUCCESS" in promtool("check", "rules", "prometheus-rules.yml")


def test_the_rules_fire_on_what_they_are_for_and_say_it() -> None:
    """Leaderless, below minimum, under-replicated, unclean: each fires, and not a minute too
    early."""
    assert "SUCCESS" in promtool("test", "rules", "prometheus-rules.test.yml")


def test_every_rule_about_replicas_is_tested() -> None:
    groups = yaml.safe_load((DEPLOY / "prometheus-rules.yml").read_text())["groups"]
    (brokers,) = (one for one in groups if one["name"] == "tallymark brokers")
    tests = yaml.safe_load((DEPLOY / "prometheus-rules.test.yml").read_text())["tests"]
    fired = {
        one["alertname"]
        for test in tests
        for one in test["alert_rule_test"]
        if one.get("exp_alerts")
    }
    assert {rule["alert"] for rule in brokers["rules"]} <= fired


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(BOARD.read_text())["panels"]
    return found


def test_panels_fit_into_the_board_and_lie_beside_each_other() -> None:
    def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        return not beside and not below

    for one in panels():
        place = one["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24, one["title"]
    for one, other in combinations(panels(), 2):
        assert not overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])


def test_panels_have_what_grafana_reads() -> None:
    titles = [one["title"] for one in panels()]
    assert len(set(titles)) == len(titles)
    for one in panels():
        assert one["type"] in KINDS
        assert one["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert {"defaults", "overrides"} <= one["fieldConfig"].keys()
        refs = [target["refId"] for target in one["targets"]]
        assert refs == list("ABCDEFGH"[: len(refs)])
        assert all(target["expr"] and target["datasource"] for target in one["targets"])


def test_grafana_is_given_the_board_and_the_prometheus_of_the_compose_file() -> None:
    compose = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text())["services"]
    mounted = [one.split(":")[1] for one in compose["grafana"]["volumes"]]
    (provider,) = yaml.safe_load(
        (DEPLOY / "grafana" / "provisioning" / "dashboards" / "tallymark.yml").read_text()
    )["providers"]
    assert f"{provider['options']['path']}/{BOARD.name}" in mounted
    (source,) = yaml.safe_load(
        (DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yml").read_text()
    )["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in compose
