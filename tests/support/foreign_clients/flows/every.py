"""All of them, by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from foreign_clients import java
from foreign_clients.flows.aio_flow import Aio
from foreign_clients.flows.flow import Flow
from foreign_clients.flows.java_flow import Java
from foreign_clients.flows.kafka_python_flow import KafkaPython
from foreign_clients.flows.kcat_flow import Kcat
from foreign_clients.flows.librdkafka import Librdkafka
from foreign_clients.flows.ours_flow import Ours

NAMES: Final = (
    *("tallymark", "librdkafka", "kafka-python", "aiokafka", "kcat"),
    *(f"java-{version}" for version in java.VERSIONS),
)


def missing(name: str) -> str:
    """Why this client cannot be had on this machine; empty where it can."""
    if name == "kcat" and shutil.which("kcat") is None:
        return "kcat is not installed: deploy/ensure-kcat"
    if name.startswith("java-") and not java.is_built(name.removeprefix("java-")):
        return f"{name} is not built here: deploy/ensure-java-clients"
    return ""


def flow(name: str, servers: str, topic: str, folder: Path) -> Flow:
    """The client of this name, not started; it may write files into ``folder``."""
    threaded: dict[str, Callable[[str, str, str], Flow]] = {
        "tallymark": Ours,
        "librdkafka": Librdkafka,
        "kafka-python": KafkaPython,
        "aiokafka": Aio,
    }
    if name in threaded:
        return threaded[name](name, servers, topic)
    if name == "kcat":
        return Kcat(name, servers, topic, folder)
    return Java(name, servers, topic, name.removeprefix("java-"))
