"""What a person can mend is one line, and is said before Spark takes its time."""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from tallymark.deployment import BrokerAddress, Cluster, Deployment, dump_toml
from tallymark.errors import AuthenticationError, ConnectError, KafkaError, UserError
from tallymark_spark_jobs.cli import reconcile
from tallymark_spark_jobs.engine.errors import (
    PermanentSourceError,
    SourceError,
    as_user_error,
    in_one_line,
    is_permanent,
    line_of,
    permanent_line,
)
from tallymark_spark_jobs.jobs.reconcile import main
from tallymark_spark_jobs.reconcile.outcome import Outcome
from tallymark_spark_jobs.reconcile.shapes.period import Period


@pytest.fixture
def settings(tmp_path: Path) -> str:
    """A deployment of one cluster, where nobody listens."""
    deployment = Deployment(
        data_dir=tmp_path / "data",
        clusters=(Cluster(name="dc1", brokers=(BrokerAddress(port=1),)),),
        mirrors=(),
    )
    path = tmp_path / "settings.toml"
    path.write_text(dump_toml(deployment))
    return str(path)


def test_an_unreachable_cluster(settings: str, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    assert main(["--settings", settings]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("reconcile: cluster dc1 cannot be read: ")
    assert "127.0.0.1:1" in line
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--from", "soon"], "'soon' is not a time"),
        (["--from", "2026-01-02", "--to", "2026-01-01"], "is empty"),
        (["--topic", "("], "not a regular expression"),
        (["--conf", "shuffle=2"], "no setting of Spark"),
    ],
)
def test_wrong_arguments(settings: str, arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(reconcile, ["--settings", settings, *arguments])
    assert isinstance(result.exception, UserError)
    assert says in str(result.exception)


def test_a_cluster_by_its_address(settings: str) -> None:
    result = CliRunner().invoke(reconcile, ["--settings", settings, "-b", "127.0.0.1:2"])
    assert "no cluster of the settings is at 127.0.0.1:2" in str(result.exception)


def test_json_goes_to_standard_output_alone(
    settings: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A script had to name a file, and read it."""
    outcome = Outcome(Period(0, 60_000), 60_000, (), {}, {}, idle=True)
    command = import_module("tallymark_spark_jobs.cli.reconcile")
    monkeypatch.setattr(command, "run", lambda *given: outcome)
    printed = CliRunner().invoke(reconcile, ["--settings", settings, "--json"])
    assert printed.exit_code == 0, printed.output
    told = json.loads(printed.stdout)
    file = tmp_path / "result.json"
    written = CliRunner().invoke(reconcile, ["--settings", settings, "--json", str(file)])
    assert json.loads(file.read_text()) == told
    assert written.stdout != printed.stdout


def test_without_java(settings: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = CliRunner().invoke(reconcile, ["--settings", settings])
    assert isinstance(result.exception, UserError)
    assert "need Java" in str(result.exception)


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_without_the_extra(settings: str, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    result = CliRunner().invoke(reconcile, ["--settings", settings])
    assert isinstance(result.exception, UserError)
    assert result.exception.do == "pip install 'tallymark[spark]'"


def test_usage_errors_of_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nonsense"]) == 2
    assert "No such option" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (UserError("there is no topic"), True),
        (AuthenticationError("b:1", "sasl", "wrong password"), True),
        (KafkaError(29), True),
        (KafkaError(5), False),
        (ConnectError("b:1", "connect", "refused"), False),
        (TimeoutError("slow"), False),
    ],
)
def test_which_errors_another_try_cannot_mend(error: Exception, permanent: bool) -> None:
    assert is_permanent(error) is permanent
    with pytest.raises(SourceError) as raised, in_one_line():
        raise error
    assert isinstance(raised.value, PermanentSourceError) is permanent


def test_our_line_is_found_in_what_spark_makes_of_it() -> None:
    with pytest.raises(SourceError) as raised, in_one_line():
        raise UserError("first\nsecond", "do")
    wrapped = RuntimeError(
        "[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n"
        f"tallymark_spark_jobs.engine.errors.PermanentSourceError: {raised.value}\n\tat org.apache"
    )
    assert permanent_line(str(wrapped)) == "first second; do"
    assert permanent_line(str(wrapped).replace("Permanent", "")) is None
    assert line_of(wrapped) == "first second; do"
    assert str(as_user_error(wrapped, "log")) == "first second; do"
    assert line_of(RuntimeError(str(wrapped).replace("Permanent", ""))) == "first second; do"
    assert line_of(RuntimeError("java.lang.OutOfMemoryError")) is None
    lost = as_user_error(RuntimeError("\njava.lang.OutOfMemoryError: heap\n at x"), "spark.log")
    assert str(lost) == "Spark failed: java.lang.OutOfMemoryError: heap; see spark.log"
