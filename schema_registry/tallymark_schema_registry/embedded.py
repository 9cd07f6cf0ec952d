"""The registry as a thread of this process.

The command stands on it, and so can any test::

    with RegistryServer("sqlite:////tmp/registry.db") as registry:
        RegistryClient(registry.url)
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Final

import uvicorn

from tallymark.errors import TallymarkError, UserError
from tallymark.net.access_log import AccessLog, AccessLogFile
from tallymark_schema_registry.service import Registry
from tallymark_schema_registry.store import Store, open_engine
from tallymark_schema_registry.web import create_app

START_TIMEOUT_S: Final = 30
CLOSE_TIMEOUT_S: Final = 10


class RegistryServer:
    """Serves from construction on; ``url`` is where. ``port`` 0 takes a free one.

    Raises UserError if the store cannot be opened or the port cannot be had.
    """

    def __init__(
        self,
        store: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        access_log: Path | None = None,
        cluster_id: str = "",
    ) -> None:
        self._socket = _listen(host, port)
        self._access_log: AccessLogFile | None = None
        try:
            self._access_log = AccessLogFile(access_log) if access_log else None
            app = create_app(Registry(Store(open_engine(store))), cluster_id)
        except BaseException:
            self._close_files()
            raise
        if self._access_log:
            app = AccessLog(app, self._access_log)
        self.url = f"http://{host}:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(_config(app))
        self._thread = threading.Thread(target=self._run, name="schema-registry", daemon=True)
        self._thread.start()
        self._wait_until_started()

    def __enter__(self) -> RegistryServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self) -> None:
        """Raises if the server's thread is gone."""
        if not self._thread.is_alive():
            raise TallymarkError("the registry's server has stopped; its log says why")

    def close(self) -> None:
        """Finish the requests that are being answered, then stop. Idempotent."""
        self._server.should_exit = True
        self._thread.join(CLOSE_TIMEOUT_S)
        self._close_files()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def _wait_until_started(self) -> None:
        for _ in range(START_TIMEOUT_S * 100):
            if self._server.started:
                return
            if not self._thread.is_alive():
                break
            self._thread.join(0.01)
        self.close()
        raise TallymarkError("the registry's server did not start; its log says why")

    def _close_files(self) -> None:
        self._socket.close()
        if self._access_log:
            self._access_log.close()
            self._access_log = None


def _config(app: object) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # uvicorn's types name its own flavour of ASGI
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=CLOSE_TIMEOUT_S // 2,
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
    except OSError as error:
        raise UserError(f"the registry's host {host} is not known: {error.strerror}") from error
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise UserError(
            f"the registry cannot listen on {host}:{port}: {error.strerror}",
            "stop what listens there, or set registry.port in the settings",
        ) from error
    return listener
