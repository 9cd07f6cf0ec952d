"""What deploy/spark has for schedulers and clusters: valid commands, units and manifests."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from project import ROOT

from tallymark_spark_jobs.cli import reconcile
from tallymark_spark_jobs.cli.load import load
from tallymark_spark_jobs.engine.said import spark_home

HERE = ROOT / "deploy" / "spark"
SCRIPTS = sorted((HERE / "submit").glob("*.sh"))
MANIFESTS = sorted((HERE / "kubernetes").glob("*.yaml"))


@pytest.fixture(scope="module")
def submit_options() -> set[str]:
    """Every option that this Spark's spark-submit knows."""
    command = [str(spark_home() / "bin" / "spark-submit"), "--help"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return set(re.findall(r"^\s*(?:-\w, )?(--[a-z-]+)", told.stderr + told.stdout, re.MULTILINE))


@pytest.mark.process
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_command_is_one_that_spark_submit_takes(
    script: Path, submit_options: set[str], tmp_path: Path
) -> None:
    assert {"--archives", "--files", "--deploy-mode"} <= submit_options
    recorder = tmp_path / "spark-submit"
    recorder.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    recorder.chmod(0o755)
    (tmp_path / "environment" / "bin").mkdir(parents=True)
    shutil.copy(recorder, tmp_path / "environment" / "bin" / "python")
    told = subprocess.run(
        [str(script), "reconcile", "--from", "2026-01-31", "--recheck-days", "2"],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "SPARK_SUBMIT": str(recorder),
            "MASTER": "spark://m:7077",
            "API": "https://k:6443",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    words = told.stdout.splitlines()
    job = next(n for n, word in enumerate(words) if word.endswith("/jobs/reconcile.py"))
    options = words[:job:2]
    assert set(options) <= submit_options
    confs = [words[n + 1] for n in range(0, job, 2) if words[n] == "--conf"]
    assert all(re.fullmatch(r"spark\.[\w.-]+=.+", conf) for conf in confs), confs
    _is_taken(reconcile, words[job + 1 :])
    if not words[job].startswith("local://"):
        assert Path(words[job]).is_file()


def _is_taken(command: click.Command, arguments: list[str]) -> None:
    """click.UsageError unless the command takes them."""
    command.make_context(command.name, list(arguments), resilient_parsing=False)


def _documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in MANIFESTS:
        for document in yaml.safe_load_all(file.read_text()):
            yield f"{file.stem}-{document['kind']}", document


@pytest.mark.parametrize(("name", "document"), list(_documents()), ids=lambda each: str(each)[:40])
def test_a_manifest_fits_the_schema_of_kubernetes(name: str, document: dict[str, Any]) -> None:
    schemas = pytest.importorskip("kubernetes_validate", reason="it is in the group dev")
    schemas.validate(document, schemas.latest_version(), strict=True)
    broken = {**document, "metadata": {**document["metadata"], "nam": "x"}}
    with pytest.raises(schemas.ValidationError):
        schemas.validate(broken, schemas.latest_version(), strict=True)


def test_the_nightly_pod_runs_commands_that_there_are() -> None:
    (job,) = [found for name, found in _documents() if name == "nightly-CronJob"]
    (script,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
    for command in (load, reconcile):
        (line,) = re.findall(rf"tallymark {command.name} (.*) \$on", script)
        _is_taken(command, line.split())
    subprocess.run(["sh", "-n", "-c", script], check=True)


def test_the_program_of_the_image_is_a_script() -> None:
    subprocess.run(["bash", "-n", str(HERE / "entrypoint.sh")], check=True)
    copied = re.findall(r"COPY .*(deploy/\S+)", (HERE / "Dockerfile").read_text())
    assert copied
    assert all((ROOT / path).is_file() for path in copied)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    units = sorted((HERE / "systemd").glob("*.[st]*e*"))
    assert len(units) == 3
    for unit in units:
        text = unit.read_text().replace("/opt/tallymark/bin/tallymark", sys.executable)
        (tmp_path / unit.name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (told.returncode, told.stderr) == (0, "")


def test_the_units_run_commands_that_there_are() -> None:
    for command in (load, reconcile):
        unit = HERE / "systemd" / f"tallymark-{command.name}.service"
        text = unit.read_text().replace("\\\n", " ")
        (line,) = re.findall(rf"^ExecStart=\S+/tallymark {command.name} (.*)$", text, re.M)
        _is_taken(command, line.split())


def test_the_dag_is_python_and_runs_a_job_that_there_is() -> None:
    """Airflow is larger than all of our packages; by hand the DAG was loaded by 3.3."""
    for file in sorted((HERE / "airflow").glob("*.py")):
        compile(file.read_text(), str(file), "exec")
    text = (HERE / "airflow" / "tallymark_nightly.py").read_text()
    options = re.findall(r'"(--[a-z-]+)"', text)
    known = {option for parameter in reconcile.params for option in parameter.opts}
    assert set(options) <= known
    jobs = set(re.findall(r"\{JOBS\}/(\w+)\.py", text))
    assert jobs == {"load", "reconcile"}
