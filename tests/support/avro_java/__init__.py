"""Java's Avro 1.12, as a judge of schemas: one Java process for thousands of cases.

Its jars are those that pyspark brings; ``Judge.java`` says what goes in and out, and
``Reader.java`` for values that are read with another schema than they were written with.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypedDict

import pytest

VERSION: Final = "1.12.1"
_JARS: Final = ("avro-1", "jackson-core-2", "jackson-databind-2", "jackson-annotations-2", "slf4j-")
_TIMEOUT: Final = 240.0


class Case(TypedDict):
    """``references`` are texts, each after those that it uses; ``stored`` ones are not checked."""

    references: list[str]
    texts: list[str]
    stored: bool


def judge(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Java's answer to each case. Skips where Java, its compiler or the jars are not there."""
    return _run("Judge.java", cases)


def read(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """What Java reads of a random value, for each case of a writer's and a reader's schema."""
    return _run("Reader.java", cases)


def _run(program: str, cases: Sequence[Case]) -> list[dict[str, Any]]:
    jars = ":".join(map(str, _jars()))
    done = subprocess.run(
        [
            _java(),
            "-Xss4m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            jars,
            str(Path(__file__).parent / program),
        ],
        input="".join(json.dumps(case) + "\n" for case in cases),
        capture_output=True,
        encoding="utf-8",
        timeout=_TIMEOUT,
        check=False,
    )
    if "jdk.compiler" in done.stderr:
        pytest.skip("this Java has no compiler: install openjdk-17-jdk-headless")
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.strip("\n").split("\n")]
    assert len(answers) == len(cases)
    return answers


def _java() -> str:
    found = shutil.which("java")
    if not found:
        pytest.skip("no Java: deploy/ensure-java")
    return found


def _jars() -> list[Path]:
    spark = importlib.util.find_spec("pyspark")
    if spark is None or not spark.submodule_search_locations:
        pytest.skip("no pyspark, which brings the jars of Avro")
    folder = Path(spark.submodule_search_locations[0]) / "jars"
    jars = [jar for jar in sorted(folder.glob("*.jar")) if jar.name.startswith(_JARS)]
    if not any(jar.name == f"avro-{VERSION}.jar" for jar in jars):
        pytest.skip(f"pyspark brings no avro-{VERSION}.jar")
    return jars
