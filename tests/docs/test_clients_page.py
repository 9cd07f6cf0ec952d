"""docs/clients.md: its snippets run as they stand there, its tables say what the code says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from broker_kinds import KINDS, OURS, new_topic
from project import ROOT
from security_world import PASSWORD, Certificates, add_users, make_certificates

from tallymark import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    ConsumerConnector,
    Producer,
    SimpleConsumer,
    errors,
)
from tallymark.client.core.security.security import SecuritySettings
from tallymark.testing import BrokerThread, MemoryBroker

PAGE = (ROOT / "docs" / "clients.md").read_text()
SNIPPETS = [
    pytest.param(snippet, id=f"{heading.strip()}-{number}")
    for heading, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    for number, snippet in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
]


class Enough(Exception):  # no error: the snippet would go on for ever
    """The snippet's ``handle`` was called often enough."""


class Handle:
    """What the application does with a message: it counts them."""

    def __init__(self, enough: int) -> None:
        self.calls: list[tuple[object, ...]] = []
        self._enough = enough

    def __call__(self, *what: object) -> None:
        self.calls.append(what)
        if len(self.calls) == self._enough:
            raise Enough


@pytest.fixture(scope="module", params=KINDS)
def usual(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """What stands in a recipe, and what it is here: a broker, and a topic with 20 messages in one
    partition. Apache Kafka is one for many tests, so the topic has a name of its own there."""
    with ExitStack() as stack:
        if request.param == OURS:
            topic, running = "clicks", stack.enter_context(MemoryBroker())
        else:
            topic, running = new_topic("clicks"), request.getfixturevalue("apache_kafka")
        servers = running.bootstrap_servers
        with Producer(bootstrap_servers=servers, audit=False) as producer:
            for number in range(20):
                producer.send(topic, b"%d" % number, key=b"k")
        yield {"127.0.0.1:9092": servers, "clicks": topic}


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[BrokerThread, Certificates]]:
    """A broker with one SASL_SSL listener and the user alice."""
    folder = tmp_path_factory.mktemp("secured")
    certificates = make_certificates(folder / "certificates")
    with BrokerThread(
        folder,
        listeners="SASL_SSL://127.0.0.1:0",
        ssl_keystore_location=str(certificates.broker),
        sasl_enabled_mechanisms="SCRAM-SHA-512",
    ) as running:
        add_users(running.settings.log_dirs[0], "alice")
        yield running, certificates


def test_there_are_recipes() -> None:
    assert len(SNIPPETS) >= 18


@pytest.mark.soak_cases("apache_kafka")
@pytest.mark.process  # it takes a while, and brings pandas
@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_recipe_runs(
    snippet: str,
    usual: dict[str, str],
    secured: tuple[BrokerThread, Certificates],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    server, certificates = secured
    Path("password").write_text(PASSWORD)
    Path("ca.pem").write_bytes(certificates.authority.read_bytes())
    here = {**usual, "127.0.0.1:9094": server.bootstrap_servers}
    for stands, is_here in here.items():
        snippet = snippet.replace(stands, is_here)
    handle = Handle(enough=5)
    world = {"handle": handle, "__name__": "snippet"}
    try:
        exec(compile(snippet, "docs/clients.md", "exec"), world)
    except Enough:
        assert len(handle.calls) == 5
    else:
        calls_handle_always = "handle(" in snippet and "except" not in snippet
        assert not calls_handle_always or handle.calls


def settings_in(title: str) -> dict[str, str]:
    """Setting -> what stands in the second column."""
    (section,) = re.findall(rf"^### {title}\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) *\|", section, re.MULTILINE))


@pytest.mark.parametrize("cls", [Producer, ConsumerConnector, SimpleConsumer, Admin])
def test_the_tables_of_settings_are_those_of_the_code(cls: type[Any]) -> None:
    found = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            default = parameter.default
            needed = default is parameter.empty
            found[name] = "needed" if needed else "" if default is None else f"`{default!r}`"
    assert settings_in(cls.__name__) == found


def test_the_table_of_security_is_that_of_the_code() -> None:
    assert list(settings_in("Every class: security")) == list(SecuritySettings.__annotations__)


def test_the_asyncio_classes_take_the_same() -> None:
    for face, core in ((AsyncProducer, Producer), (AsyncConsumer, ConsumerConnector)):
        assert inspect.signature(face) == inspect.signature(core)


def test_the_errors_named_exist() -> None:
    (section,) = re.findall(r"^## Errors and what to do\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    named = set(re.findall(r"`(\w+Error)`", section))
    assert len(named) >= 12
    for name in named:
        assert issubclass(getattr(errors, name), errors.TallymarkError)
