"""What others have said about Spark's settings, which wins over what we would choose.

From weak to strong: ``spark-defaults.conf``, ``PYSPARK_SUBMIT_ARGS`` or ``spark-submit``, the
option ``--conf`` of our commands.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tallymark.errors import UserError

JAVA_STARTS_WITH: Final = (
    "spark.driver.memory",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.master",
    "spark.submit.deployMode",
)
"""What the driver's Java machine is started with: under spark-submit it runs before we do."""

_SHORT: Final = {
    "--master": "spark.master",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": "spark.executor.instances",
    "--total-executor-cores": "spark.cores.max",
    "--files": "spark.files",
    "--archives": "spark.archives",
    "--py-files": "spark.submit.pyFiles",
    "--jars": "spark.jars",
    "--packages": "spark.jars.packages",
}
_LINE: Final = re.compile(r"^\s*(?P<name>[^\s=:#!]+)(?:\s*[=:]\s*|\s+)(?P<value>.*?)\s*$")


def of_options(pairs: Iterable[str]) -> dict[str, str]:
    """The ``--conf K=V`` of a command. UserError for what is none."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.startswith("spark."):
            raise UserError(
                f"--conf {pair!r} is no setting of Spark", "give --conf spark.NAME=VALUE"
            )
        found[name.strip()] = value
    return found


def refuse_too_late(conf: Mapping[str, str]) -> None:
    """UserError for settings of a command that spark-submit alone can give."""
    late = [name for name in JAVA_STARTS_WITH if name in conf]
    if late:
        raise UserError(
            f"{late[0]} comes too late here: spark-submit has started the driver",
            f"give spark-submit --conf {late[0]}={conf[late[0]]}, before the job's file",
        )


def in_files_and_environment(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    """What a Java machine that we start would read by itself. ``home``: Spark's folder."""
    folder = environment.get("SPARK_CONF_DIR") or str(home / "conf")
    found = _of_defaults(Path(folder) / "spark-defaults.conf")
    if memory := environment.get("SPARK_DRIVER_MEMORY"):
        found.setdefault("spark.driver.memory", memory)
    return found | _of_arguments(shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", "")))


def spark_home() -> Path:
    """``SPARK_HOME``, or the folder of the package pyspark, which has all of Spark in it."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    import pyspark

    return Path(pyspark.__file__).parent


def _of_defaults(file: Path) -> dict[str, str]:
    """``spark-defaults.conf``: name, then white space, ``=`` or ``:``, then the value."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read Spark's {file}: {error}", "see SPARK_CONF_DIR") from error
    joined = re.sub(r"\\\r?\n\s*", "", text)
    lines = [_LINE.match(line) for line in joined.splitlines() if line.lstrip()[:1] not in "#!"]
    return {found["name"]: found["value"] for found in lines if found is not None}


def _of_arguments(arguments: Sequence[str]) -> dict[str, str]:
    """The settings among the arguments of spark-submit, ``--conf`` and the options that stand for
    one."""
    found: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        if option not in _SHORT and option not in ("--conf", "-c"):
            continue
        if not equals:
            value = next(rest, "")
        if option in _SHORT:
            found[_SHORT[option]] = value
        else:
            name, _, setting = value.partition("=")
            found[name] = setting
    return found
