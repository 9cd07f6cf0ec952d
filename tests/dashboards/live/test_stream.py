"""Live pages over real sockets: what is sent, how it is packed, and how it ends."""

from __future__ import annotations

import json
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tallymark.deployment import Deployment
from tallymark.net.web.server import WebServer, listen
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.store import Store
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.reading.paging import Which, verdict_page
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import PAGES, page
from tallymark_dashboards.live.feeds import Feeds

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z
W = 60_000
PATIENCE = 30.0
NEWEST = "/newest-window"


def newest(ask: Ask) -> Page:
    """A page that shows the newest window of a topic."""
    found = verdict_page(ask.connection, Which(topic=ask.text("topic") or None), None, 1)
    name = f"{found[0]['topic']} at {found[0]['window']}" + " .\u2026" * 500
    return Page("newest", "pages/missing.html", {"what": "window", "name": name})


@pytest.fixture(autouse=True)
def newest_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAGES, "newest", None)  # so that it is taken out again
    del PAGES["newest"]
    page(NEWEST, name="newest", live=True)(newest)


class Stream:
    """The live stream of a page. ``raw``: how many bytes have come."""

    def __init__(self, port: int, query: str, **headers: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        lines = [f"GET /live?{query} HTTP/1.1", "Host: 127.0.0.1"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self.raw = 0
        self._file = self.socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        self.headers: dict[str, str] = {}
        while (line := self._file.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        self._unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._text = ""

    def chunk(self) -> bytes:
        """The next piece of the body, as it was sent; empty at the end."""
        size = int(self._file.readline() or b"0", 16)
        data = self._file.read(size)
        self._file.readline()
        self.raw += size
        return data

    def event(self) -> tuple[str, dict[str, Any]]:
        """The name and the data of the next event."""
        while True:
            while "\n\n" not in self._text:
                data = self.chunk()
                assert data, "the stream has ended"
                packed = self.headers.get("content-encoding") == "gzip"
                self._text += (self._unpack.decompress(data) if packed else data).decode()
            block, _, self._text = self._text.partition("\n\n")
            fields = dict(line.split(": ", 1) for line in block.splitlines())
            if "event" in fields:
                return fields["event"], json.loads(fields["data"])

    def shown(self) -> dict[str, Any]:
        """The next fragment."""
        while True:
            name, said = self.event()
            if name == "page":
                return said

    def close(self) -> None:
        self._file.close()
        self.socket.close()


class Served:
    """The dashboards on a port of their own."""

    def __init__(self, deployment: Deployment, store: Store) -> None:
        self.app = create_app(deployment, store)
        listener = listen("127.0.0.1", 0, "the dashboards", "dashboards.port")
        self.port: int = listener.getsockname()[1]
        self.server = WebServer(self.app, listener, "dashboards")
        self.store = store
        self._judged = 0
        self._opened = ExitStack()

    def open(self, query: str = f"page={NEWEST}", **headers: str) -> Stream:
        """A stream; it is closed with the server."""
        stream = Stream(self.port, query, **headers)
        self._opened.callback(stream.close)
        return stream

    def judge(self) -> None:
        """One more window is complete: the newest window changes."""
        self._judged += 1
        window = NOON + (100 + self._judged) * W
        done = Verdict("dc1-to-aggregate", "views", window, State.COMPLETE, claimed=10, observed=10)
        with self.store.write() as connection:
            record_verdicts(connection, [done], COLLECTOR, NOON + 20 * W + self._judged)

    def stop(self) -> None:
        self.app.state.hub.stop()
        self.server.close()

    def close(self) -> None:
        self._opened.close()
        self.stop()
        self.app.state.renderings.close()


@pytest.fixture
def served(filled: Store, deployment: Deployment) -> Iterator[Served]:
    served = Served(deployment, filled)
    yield served
    served.close()


def test_a_change_is_sent_packed_to_who_takes_it(served: Served) -> None:
    plain, packed = served.open(), served.open(accept_encoding="gzip, deflate, br")
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    for stream in (plain, packed):
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["cache-control"] == "no-store"
        assert stream.headers["x-accel-buffering"] == "no"
        assert f"views at {NOON + 4 * W}" in stream.shown()["html"]
    assert packed.raw < plain.raw / 3
    served.judge()
    assert plain.shown() == packed.shown()


def test_httpx_unpacks_the_stream_as_it_comes(served: Served) -> None:
    url = f"http://127.0.0.1:{served.port}/live?page={NEWEST}"
    with httpx.stream("GET", url, timeout=PATIENCE) as response:
        assert response.headers["content-encoding"] == "gzip"
        names = (line for line in response.iter_lines() if line.startswith("event: "))
        assert next(names) == "event: page"
        served.judge()
        assert next(names) == "event: page"


def test_a_page_that_connects_again_gets_what_it_missed_and_nothing_twice(served: Served) -> None:
    stream = served.open()
    first = stream.shown()["digest"]
    stream.close()
    assert served.open(last_event_id=first).event()[0] == "beat"
    served.judge()
    assert served.open(last_event_id=first).shown()["digest"] != first


def test_a_page_just_loaded_is_not_sent_again(served: Served) -> None:
    html = httpx.get(f"http://127.0.0.1:{served.port}{NEWEST}?topic=clicks").text
    digest = html.partition('data-digest="')[2].partition('"')[0]
    assert len(digest) > 8
    query = f"page={NEWEST}%3Ftopic%3Dclicks&have={digest}"
    assert served.open(query).event()[0] == "beat"


def test_the_address_decides_what_is_sent(served: Served) -> None:
    assert "clicks at" in served.open(f"page={NEWEST}%3Ftopic%3Dclicks").shown()["html"]
    assert "views at" in served.open(f"page={NEWEST}%3Ftopic%3Dviews").shown()["html"]


@pytest.mark.parametrize("page", ["/nothing", "", "/" + "x" * 20_000, "//[", "/metrics", "\x00"])
def test_an_address_that_is_no_live_page_is_refused(served: Served, page: str) -> None:
    found = httpx.get(f"http://127.0.0.1:{served.port}/live", params={"page": page})
    assert found.status_code == 404
    assert "detail" in found.json()


def test_streams_end_when_the_server_stops(served: Served) -> None:
    """uvicorn waits for open responses: those of live pages would never have ended."""
    streams = [served.open() for _ in range(3)]
    for stream in streams:
        stream.shown()
    closing = threading.Thread(target=served.stop)
    closing.start()
    for stream in streams:
        while stream.chunk():
            pass
    closing.join()


def test_a_reader_that_stops_reading_holds_nothing_up(served: Served) -> None:
    slow, quick = served.open(), served.open()
    for _ in range(3):
        served.judge()
        quick.shown()
    assert len(served.app.state.hub) == 2
    slow.close()
    served.judge()
    quick.shown()
    deadline = time.monotonic() + PATIENCE
    while len(served.app.state.hub) > 1:
        assert time.monotonic() < deadline, "a reader that has gone is still a viewer"
        time.sleep(0.05)


def test_many_viewers_are_served_by_one_rendering(served: Served) -> None:
    streams = [served.open(accept_encoding="gzip") for _ in range(60)]
    assert len({one.shown()["digest"] for one in streams}) == 1
    made = served.app.state.renderings.made
    served.judge()
    assert len({one.shown()["digest"] for one in streams}) == 1
    assert served.app.state.renderings.made <= made + 2


def test_more_viewers_than_the_limit_are_told_when_to_come_again(served: Served) -> None:
    served.app.state.hub._feeds = Feeds(most_viewers=1)
    served.open().shown()
    other = served.open()
    assert (other.status, other.headers["retry-after"]) == (503, "30")
