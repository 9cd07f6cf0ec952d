"""The dashboards' server: what is left when it cannot start."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tallymark.deployment import DashboardSettings, Deployment
from tallymark.deployment.audit import AuditSettings
from tallymark.deployment.dashboards import ProxyLogin
from tallymark.errors import UserError
from tallymark.net.web.server import listen
from tallymark.processes.free_ports import free_ports
from tallymark_dashboards import server


def test_a_store_that_cannot_be_opened_leaves_no_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dashboards bind their port first. When the store could not be opened, the socket stayed
    open, and a program that tried again found its own port taken."""
    bound: list[socket.socket] = []

    def listening(host: str, port: int, what: str, setting: str) -> socket.socket:
        bound.append(listen(host, port, what, setting))
        return bound[0]

    monkeypatch.setattr(server, "listen", listening)
    (tmp_path / "file").write_text("")
    audit = AuditSettings(store=f"sqlite:///{tmp_path}/file/audit.db")
    deployment = Deployment(data_dir=tmp_path, dashboards=DashboardSettings(port=0), audit=audit)
    with pytest.raises(UserError, match="audit store"):
        server.DashboardServer(deployment)
    assert bound[0].fileno() == -1


@pytest.fixture
def behind_a_proxy(tmp_path: Path) -> Iterator[Callable[[str], tuple[server.DashboardServer, int]]]:
    """Dashboards that trust one address."""
    with ExitStack() as stack:

        def start(peer: str) -> tuple[server.DashboardServer, int]:
            (port,) = free_ports(1)
            settings = DashboardSettings(port=port, proxy=ProxyLogin(trusted_peers=(peer,)))
            found = server.DashboardServer(Deployment(data_dir=tmp_path, dashboards=settings))
            stack.callback(found.close)
            return found, port

        yield start


def asked(port: int, **headers: str) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/runs")
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_who_names_the_proxys_address_is_not_the_proxy(
    behind_a_proxy: Callable[[str], tuple[server.DashboardServer, int]],
) -> None:
    """The server took the client's address from X-Forwarded-For where a connection came from this
    machine: any program on it was the proxy, and any user, by saying so."""
    _, port = behind_a_proxy("10.0.0.7")
    assert asked(port, X_Forwarded_User="alice", X_Forwarded_For="10.0.0.7") == 401
    assert asked(port, X_Forwarded_User="alice", Forwarded="for=10.0.0.7") == 401
    assert asked(port, X_Forwarded_User="alice") == 401


def test_the_access_log_names_whom_the_proxy_let_in(
    behind_a_proxy: Callable[[str], tuple[server.DashboardServer, int]], tmp_path: Path
) -> None:
    running, port = behind_a_proxy("127.0.0.1")
    assert asked(port, X_Forwarded_User="ali ce", X_Forwarded_For="192.0.2.9") == 200
    running.close()  # and once more by the fixture: closing twice raised OSError
    (line,) = (tmp_path / "logs/dashboards-access.log").read_text().splitlines()
    assert line.startswith("192.0.2.9 - ali\\x20ce [")
