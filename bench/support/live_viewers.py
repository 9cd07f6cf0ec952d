"""Many live pages in one thread: they read what they are sent, and count it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import quote


class Viewers:
    """One open stream for each of ``pages`` ("/topic?topic=clicks"), until :meth:`close`."""

    def __init__(self, port: int, pages: Sequence[str]) -> None:
        self._port, self._pages = port, pages
        self.bytes = [0] * len(pages)
        """What came, by page; heads are not counted."""
        self.refused = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close all streams."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        tasks = [self._loop.create_task(self._view(n)) for n in range(len(self._pages))]
        self._loop.run_forever()
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _view(self, number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        page = quote(self._pages[number], safe="")
        head = f"GET /live?page={page} HTTP/1.1\r\nHost: bench\r\nAccept-Encoding: gzip\r\n\r\n"
        try:
            writer.write(head.encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            self.refused += b" 200 " not in answer.splitlines()[0]
            while data := await reader.read(65_536):
                self.bytes[number] += len(data)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
