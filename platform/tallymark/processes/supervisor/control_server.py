"""The supervisor's side of :mod:`.control`: a socket that no client can block.

Every connection has a deadline for its request, its answer and its reading of it, and there is a
bound on how many wait at once: beyond it the one that has waited longest is closed. Nothing here
waits for a client when the supervisor ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import socket
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from tallymark.errors import UserError
from tallymark.net.limits.accept_queue import FEW_ACCEPTS, close_listener, rate_accept_errors
from tallymark.processes.supervisor.control import ANSWER_SECONDS, socket_path

Request = tuple[dict[str, Any], "Future[dict[str, Any]]"]
_REQUEST_SECONDS: Final = 5.0
_REQUEST_BYTES: Final = 1 << 16
_MOST_CONNECTIONS: Final = 32
_CLOSE_SECONDS: Final = 2.0


class ControlServer:
    """Accepts requests in a thread and queues them for the supervisor's own loop, which is the one
    owner of its state: :meth:`pending` gives them out, the future takes the answer.

    ``address`` is the socket's path. A socket that exists is treated as a leftover: the caller
    holds the lock of the data folder. Raises UserError where no socket can be made there.
    """

    def __init__(self, address: Path) -> None:
        self._address = address
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._loop = asyncio.new_event_loop()
        self._socket = _listen(address)
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()

    def pending(self) -> list[Request]:
        """The requests that have come since the last call."""
        found: list[Request] = []
        while not self._requests.empty():
            found.append(self._requests.get())
        return found

    def close(self) -> None:
        """Listen no more; connections are cut off, whatever they are waiting for."""
        self._address.unlink(missing_ok=True)
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        rate_accept_errors(asyncio.get_running_loop())
        # start_unix_server looks at the file of the socket's name (Python 3.13), and that name may
        # lead through a folder that is closed by now: see socket_path.
        server = await asyncio.start_server(
            self._accepted, sock=self._socket, limit=_REQUEST_BYTES, backlog=FEW_ACCEPTS
        )
        await self._ended.wait()
        await close_listener(server)
        for task, writer in list(self._serving.items()):
            writer.transport.abort()
            task.cancel()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._serving) >= _MOST_CONNECTIONS:
            longest = next(iter(self._serving))
            self._serving.pop(longest).transport.abort()
            longest.cancel()
        self._serving[task] = writer
        try:
            await self._exchange(reader, writer)
            writer.close()
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError):
            pass  # a client that left, said nothing in time or nothing sensible: theirs, not ours
        except asyncio.CancelledError:
            pass  # we end, or others wait
        finally:
            self._serving.pop(task, None)
            writer.transport.abort()  # nothing is left to send where it went well

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_REQUEST_SECONDS):
            line = await reader.readuntil(b"\n")
        answer: Future[dict[str, Any]] = Future()
        self._requests.put((_request(line), answer))
        # The client gives up first: it knows why, and we could only close the connection.
        async with asyncio.timeout(ANSWER_SECONDS + _REQUEST_SECONDS):
            content = await asyncio.wrap_future(answer)
        writer.transport.set_write_buffer_limits(0)  # drained means that the kernel has all of it
        writer.write(json.dumps(content).encode())
        async with asyncio.timeout(_REQUEST_SECONDS):
            await writer.drain()


def _request(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(request, dict):
        raise ValueError("no JSON object")
    return request


def _listen(address: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        # Before bind, so that there is no moment at which others may open it; Linux takes the
        # file's mode from here, others from the umask, which is 077 in every process of ours.
        os.fchmod(listener.fileno(), 0o600)
        address.unlink(missing_ok=True)
        with socket_path(address) as path:
            listener.bind(path)
        address.chmod(0o600)
        listener.listen(FEW_ACCEPTS)  # at once: a client that connects before the thread runs waits
    except OSError as error:
        listener.close()
        raise UserError(
            f"cannot listen on {address}: {error.strerror or error}",
            "give a data_dir on a local disk, or one with a shorter path",
        ) from error
    return listener
