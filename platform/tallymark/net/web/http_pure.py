"""HTTP/1.1 read by h11, in Python: where httptools is not installed."""

from __future__ import annotations

from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tallymark.net.web.connection_bounds import BoundedConnection

_AWAITED: Final = {str(h11.IDLE): "head", str(h11.SEND_BODY): "body"}
"""State of a client -> the part of a request that it still has to send; nothing in other states."""


class PureHttp(BoundedConnection, H11Protocol):
    """One connection. An application that answers before it has read the body does not end the time
    in which that has to be sent."""

    def data_received(self, data: bytes) -> None:
        """Feed the parser, which starts what is complete."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        self.wait_for(self._client_owes())

    def _client_owes(self) -> str:
        """The part of a request that the client has not sent yet.

        A request is read only after the one before it is answered: while a client waits for that
        answer it owes nothing, though it may have sent half of the next request.
        """
        return _AWAITED.get(str(self.conn.their_state), "")
