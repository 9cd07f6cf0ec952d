"""What stands around all routes: headers of every answer, and the path below which a proxy serves
the dashboards."""

from __future__ import annotations

from typing import Any, Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tallymark_dashboards.access.forwarded import PREFIX

HEADERS: Final = {
    # Everything that a page loads comes from this server; inline scripts and styles do not run.
    "Content-Security-Policy": "default-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Headers:
    """Adds :data:`HEADERS` to each answer, where a route has not set them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, sending if scope["type"] == "http" else send)


class PathPrefix:
    """Takes the prefix from the paths that begin with it: that of the settings (``prefix``,
    "/audit"), or the one that a trusted proxy says (:mod:`~tallymark_dashboards.access.forwarded`).
    A proxy may pass the prefix on, or remove it; either way the routes see a path without."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        prefix = scope.setdefault(PREFIX, self._prefix)
        path = scope.get("path", "")
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            shorter: dict[str, Any] = {**scope, "path": path[len(prefix) :] or "/"}
            raw = scope.get("raw_path")
            if raw is not None and raw.startswith(prefix.encode()):
                shorter["raw_path"] = raw[len(prefix) :] or b"/"
            scope = shorter
        await self._app(scope, receive, send)
