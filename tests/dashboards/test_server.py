"""The dashboards' server: what is left when it cannot start."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tallymark.deployment import Deployment
from tallymark.deployment.audit import AuditSettings
from tallymark.deployment.model import DashboardSettings
from tallymark.errors import UserError
from tallymark.net.web.server import listen
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
