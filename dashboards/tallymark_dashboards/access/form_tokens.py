"""Tokens that prove that a form is ours, and was shown to the user who sends it.

A browser sends a password, and the cookie of a proxy, also with a form that a page of another site
has made. Such a page cannot read our forms, so it cannot know what is in them: a token of the user,
the browser (a random cookie that is never sent from other sites), the action and its end, with a
message authentication code (HMAC-SHA256) by a key that only this process knows.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from enum import Enum
from typing import Final

LASTS_MS: Final = 3_600_000
COOKIE: Final = "tallymark-form"
_BROWSER: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_TOKEN: Final = re.compile(r"(\d{1,15})\.([0-9a-f]{64})", re.ASCII)


class Proof(Enum):
    """What a token proves."""

    OURS = "ours"
    EXPIRED = "expired"
    FOREIGN = "foreign"


class FormTokens:
    """Makes tokens and checks them; ``key``: at least 32 random bytes."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def make(self, user: str, browser: str, action: str, now_ms: int) -> str:
        """The token of a form for one action of one user in one browser."""
        end = now_ms + LASTS_MS
        return f"{end}.{self._code(user, browser, action, end)}"

    def check(self, token: str, user: str, browser: str, action: str, now_ms: int) -> Proof:
        """What the token proves for this user, browser and action. An expired one proves only that
        the form was ours: nothing may be changed by it."""
        found = _TOKEN.fullmatch(token)
        if found is None or not is_browser(browser):
            return Proof.FOREIGN
        end = int(found[1])
        if not hmac.compare_digest(found[2], self._code(user, browser, action, end)):
            return Proof.FOREIGN
        return Proof.OURS if now_ms < end else Proof.EXPIRED

    def _code(self, user: str, browser: str, action: str, end: int) -> str:
        # As JSON, so that no two different lists are the same text.
        text = json.dumps([user, browser, action, end]).encode()
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()


def new_browser() -> str:
    """The random value of a cookie."""
    return secrets.token_urlsafe(32)


def is_browser(value: str) -> bool:
    """Whether a cookie's value is one that :func:`new_browser` may have made."""
    return _BROWSER.fullmatch(value) is not None
