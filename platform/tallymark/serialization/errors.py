"""What serialization raises, beside ConnectError and TimedOutError of the client."""

from __future__ import annotations

from typing import Final

from tallymark.errors import TallymarkError

_WHAT_TO_DO: Final = {
    401: "give the username and password, or the token, of a user of this registry",
    403: "ask for the right to do this, or log in as a user who has it",
}
_STORE_FAILED: Final = 50001
_SEE_ITS_LOG: Final = "the log of the registry says why its store cannot be used; then try again"


class SerializationError(TallymarkError):
    """A value that does not fit its schema, bytes that do not decode, or an impossible schema."""


class RegistryError(TallymarkError):
    """The registry answered with an error: HTTP ``status``, its own ``code``, ``message``.

    ``request``: what was asked, as "METHOD PATH at URL"; never with a user, a password or a token.
    """

    def __init__(self, status: int, code: int, message: str, request: str = "") -> None:
        said = f"the schema registry answered {code}: {message}"
        if request:
            said += f" ({request})"
        if status in _WHAT_TO_DO:
            said += f"; {_WHAT_TO_DO[status]}"
        elif code == _STORE_FAILED:
            said += f"; {_SEE_ITS_LOG}"
        super().__init__(said)
        self.status = status
        self.code = code
        self.message = message
        self.request = request
