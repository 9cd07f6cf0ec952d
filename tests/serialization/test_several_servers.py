"""Several servers of one registry, and who asks them."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from scripted_registry import Answer, Asked, ScriptedRegistry

from tallymark.errors import ConnectError, TimedOutError, UserError
from tallymark.processes.free_ports import free_ports
from tallymark.serialization import RegistryClient, RegistryError
from tallymark.serialization.addresses import parse_addresses
from tallymark.serialization.http_retry import Http

Script = Callable[[Asked], Answer | None]
Start = Callable[[Script], ScriptedRegistry]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(ScriptedRegistry(script))


def well(_asked: Asked) -> Answer:
    return Answer(["s"])


def in_trouble(_asked: Asked) -> Answer:
    return Answer({"error_code": 50003, "message": "no leader"}, 500)


def hangs_up(_asked: Asked) -> None:
    return None


@pytest.fixture
def nobody() -> str:
    """Where no server listens."""
    return f"http://127.0.0.1:{free_ports(1)[0]}"


@pytest.mark.parametrize("script", [in_trouble, hangs_up])
def test_the_next_server_is_asked_at_once_and_from_then_on(start: Start, script: Script) -> None:
    bad, good = start(script), start(well)
    slept: list[float] = []
    http = Http([bad.url, good.url], 5, attempts=4, sleep=slept.append)
    assert [http.request("GET", "/subjects") for _ in range(3)] == [["s"]] * 3
    http.close()
    assert (len(bad.asked), len(good.asked), slept) == (1, 3, [])


def test_a_server_that_comes_back_serves_when_the_other_one_fails(start: Start) -> None:
    first, second = start(in_trouble), start(well)
    with RegistryClient(f"{first.url}, {second.url}/") as client:
        assert client.subjects() == ["s"]
        first.script, second.script = well, in_trouble
        assert client.subjects() == ["s"]
        assert client.subjects() == ["s"]
    assert (len(first.asked), len(second.asked)) == (3, 2)


def test_nobody_listens_at_the_first_address(start: Start, nobody: str) -> None:
    good = start(well)
    with RegistryClient([nobody, good.url], attempts=1) as client:
        assert client.subjects() == ["s"]
        assert client.url == f"{nobody},{good.url}"


def test_all_are_tried_as_often_as_was_said(start: Start) -> None:
    servers = [start(in_trouble), start(in_trouble)]
    slept: list[float] = []
    http = Http([one.url for one in servers], 5, attempts=3, sleep=slept.append)
    with pytest.raises(RegistryError, match="50003: no leader") as told:
        http.request("GET", "/subjects")
    http.close()
    assert [len(one.asked) for one in servers] == [3, 3]
    assert len(slept) == 2
    assert told.value.request == f"GET /subjects at {servers[1].url}"


def test_an_answer_is_an_answer(start: Start) -> None:
    """A refusal is the same from every server of the registry."""
    first, second = (
        start(lambda _: Answer({"error_code": 40401, "message": "no"}, 404)),
        start(well),
    )
    with RegistryClient([first.url, second.url]) as client:
        assert client.latest("s") is None
    assert second.asked == []


def test_the_time_that_a_server_asks_for_is_waited(start: Start) -> None:
    answers = [Answer(b"", 503, {"retry-after": "3"}), Answer(b"x", 429), Answer([])]
    server = start(lambda _: answers.pop(0))
    slept: list[float] = []
    http = Http(server.url, 5, attempts=4, back_off_s=0.1, sleep=slept.append)
    assert http.request("GET", "/subjects") == []
    http.close()
    assert slept[0] == 3.0
    assert slept[1] < 0.4


def test_a_deletion_is_not_sent_again_where_it_may_have_been_carried_out(start: Start) -> None:
    """The second one would be refused: the version is softly deleted already."""
    server = start(hangs_up)
    with RegistryClient(server.url) as client, pytest.raises(ConnectError, match="disconnected"):
        client.delete_version("s", 1)
    assert len(server.asked) == 1
    answers = [Answer(b"", 503), Answer(1)]
    server.script = lambda _: answers.pop(0)
    with RegistryClient(server.url) as client:
        assert client.delete_version("s", 1) == 1


def test_none_answers(nobody: str) -> None:
    with (
        RegistryClient([nobody, "http://localhost:1"], attempts=2) as client,
        pytest.raises(ConnectError, match="nor does") as told,
    ):
        client.subjects()
    assert nobody in str(told.value)


def test_a_server_that_is_silent_costs_its_time_once(start: Start) -> None:
    good = start(well)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with RegistryClient([url, good.url], timeout=2, attempts=1) as client:
            assert client.subjects() == client.subjects() == ["s"]
        with (
            RegistryClient(url, timeout=0.05, attempts=1) as client,
            pytest.raises(TimedOutError, match="did not answer"),
        ):
            client.subjects()


SECRET = "s3cr3t-pw"


def test_who_asks(start: Start) -> None:
    server = start(well)
    host = server.url.removeprefix("http://")
    basic = "Basic YWxpY2U6czNjcjN0LXB3"
    with RegistryClient(server.url, username="alice", password=SECRET) as client:
        client.subjects()
    with RegistryClient(f"http://alice:{SECRET}@{host}") as client:
        client.subjects()
        assert client.url == server.url
    with RegistryClient(server.url, token="abc.def") as client:
        client.subjects()
    tokens = iter(["one", "two"])
    with RegistryClient(server.url, token=lambda: next(tokens)) as client:
        client.subjects()
        client.subjects()
    with RegistryClient(server.url) as client:
        client.subjects()
    sent = [asked.headers.get("authorization") for asked in server.asked]
    assert sent == [basic, basic, "Bearer abc.def", "Bearer one", "Bearer two", None]


def test_secrets_are_nowhere(start: Start, nobody: str, caplog: pytest.LogCaptureFixture) -> None:
    """The HTTP library logs each address that it asks, with the password in it."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "httpx")  # a server in the same process quietens it
    refused = start(lambda _: Answer({"error_code": 401, "message": "log in"}, 401))
    told: list[str] = []
    for url in (nobody, refused.url):
        of_alice = url.replace("http://", f"http://alice:{SECRET}@")
        for client in (
            RegistryClient(of_alice, attempts=1),
            RegistryClient(url, attempts=1, username="alice", password=SECRET),
            RegistryClient(url, attempts=1, token=SECRET),
        ):
            with client, pytest.raises((RegistryError, ConnectError)) as error:
                client.subjects()
            told += [str(error.value), repr(error.value), repr(vars(client)), client.url]
    with pytest.raises(UserError) as wrong:
        RegistryClient(f"alice:{SECRET}@localhost")
    with pytest.raises(UserError, match="token") as unsendable:
        RegistryClient(nobody, token=f"{SECRET}\n")
    with pytest.raises(UserError, match="not both") as both:
        RegistryClient(nobody, token=SECRET, username="alice", password=SECRET)
    with (
        RegistryClient(nobody, token=lambda: f"{SECRET} ") as client,
        pytest.raises(UserError, match="token") as unsendable_now,
    ):
        client.subjects()
    told += [str(one.value) for one in (wrong, unsendable, both, unsendable_now)]
    assert SECRET not in "\n".join(told)
    assert SECRET not in caplog.text
    assert "HTTP Request" in caplog.text, "the log was not looked at"
    assert "give the username and password, or the token" in "\n".join(told)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("http://a:1", ["http://a:1"]),
        ("http://a:1/,https://b/x/ ", ["http://a:1", "https://b/x"]),
        (["http://[::1]:8081", "http://[::1]:8081/"], ["http://[::1]:8081"]),
        ("http://a/contexts/.test/", ["http://a/contexts/.test"]),
    ],
)
def test_addresses(written: str | list[str], read: list[str]) -> None:
    assert [one.url for one in parse_addresses(written)] == read


@pytest.mark.parametrize(
    "written",
    [
        [],
        "http://a,",
        "http://a:x",
        "http://[::1",
        "http://a?x=1",
        "http://a#x",
        "a:1",
        ["http://"],
    ],
)
def test_no_addresses(written: str | list[str]) -> None:
    with pytest.raises(UserError, match="is not the address of a schema registry"):
        parse_addresses(written)
