"""The commands that pages show. They named neither the topic nor the settings: typed in on the
machine of whoever was on call, they repaired another deployment, or all of it."""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from prepared_store import EDGES, Prepared, deployment_in, prepare

from tallymark.clock import now_ms
from tallymark_audit.api import PREFIX
from tallymark_audit.store import open_store
from tallymark_dashboards.app.application import create_app

SETTINGS = "/etc/tally mark/deployment.toml"
QUOTED = "--settings '/etc/tally mark/deployment.toml'"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    deployment = deployment_in(tmp_path_factory.mktemp("prepared"))
    with open_store(deployment.audit_store) as store:
        yield prepare(store, deployment, now_ms(), hours=8)


@pytest.fixture(scope="module")
def client(prepared: Prepared) -> Iterator[TestClient]:
    app = create_app(prepared.deployment, prepared.store, settings=SETTINGS)
    with TestClient(app) as client:
        yield client


def commands_in(html: str) -> list[str]:
    text = unescape(re.sub(r"<[^>]+>", "\n", html))
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line.startswith("tallymark audit ")]


def places(prepared: Prepared) -> dict[str, str | int]:
    return {"edge": EDGES[2], "topic": "payments", "window": prepared.gone}


def test_commands_of_a_window_have_the_settings(client: TestClient, prepared: Prepared) -> None:
    found = commands_in(client.get(f"/window?{urlencode(places(prepared))}").text)
    assert found
    assert all(QUOTED in line for line in found)
    told = client.get(f"{PREFIX}/repairability", params=places(prepared)).json()
    assert [one["command"] for one in told["steps"] if one["command"]] == found


def test_commands_of_incidents_have_the_settings(client: TestClient) -> None:
    every = client.get(f"{PREFIX}/incidents?state=OPEN").json()["incidents"]
    for incident in every:
        found = commands_in(client.get(f"/incident?id={incident['id']}").text)
        assert all(QUOTED in line for line in found)


def test_commands_of_actions_and_of_all_other_pages_have_the_settings(
    client: TestClient, prepared: Prepared
) -> None:
    """ "The same by a command", beside the button, accepted a window of another deployment."""
    window = urlencode(places(prepared))
    paths = [f"/act/{one}?{window}" for one in ("accept", "withdraw", "repair")]
    reporter = client.get(f"{PREFIX}/reporters").json()["reporters"][0]["reporter"]
    paths += [f"/act/retire?{urlencode({'reporter': reporter})}", "/act/pause", "/act/resume"]
    for path in (*paths, "/alerts", "/"):
        found = commands_in(client.get(path).text)
        assert found, path
        assert all(QUOTED in line for line in found), path
