"""Whether a request may change something. Pure: each check is one reason, which the user sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tallymark_dashboards.access.form_tokens import FormTokens, Proof
from tallymark_dashboards.access.user import User

FORM: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Refused:
    """Why nothing was changed, and what to do. ``again``: whether the form is to be shown again."""

    status: int
    said: str
    hint: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Posted:
    """What a POST says about where it comes from. ``origins``: those of the dashboards, as in
    ``https://tallymark.example``."""

    headers: Mapping[str, str]
    origins: Iterable[str]


def may_not_act(user: User, actions: bool) -> Refused | None:
    """Why this user may change nothing here; None: they may."""
    if not actions:
        return Refused(
            403,
            "these dashboards only show",
            "Set actions = true in [dashboards] of the settings, or use the command.",
        )
    if not user.may_act:
        who = f"the user {user.name}" if user.name else "a user who has not logged in"
        return Refused(
            403,
            f"{who} may look here, and change nothing",
            "Name the user, or a group, as operator in [dashboards.roles] of the settings.",
        )
    return None


def is_foreign(posted: Posted) -> Refused | None:
    """Why the request is not of a page of ours; None: it is. A browser says with each form from
    which page it comes: by ``Sec-Fetch-Site``, which holds also where a proxy changes the Host
    header, or, over plain HTTP, by ``Origin`` alone. What says neither is no form of ours."""
    site = posted.headers.get("sec-fetch-site", "").strip().lower()
    origin = posted.headers.get("origin", "").strip().lower()
    same = origin != "null" if site == "same-origin" else not site and origin in posted.origins
    if not same:
        return Refused(
            403,
            f"a page of {origin[:100] or 'another site'!r} may change nothing here",
            "Open the form on a page of these dashboards, and send it from there.",
        )
    kind = posted.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        return Refused(415, "this is no form", "Open the form, and send it from there.")
    return None


def is_unproven(
    tokens: FormTokens, token: str, user: User, browser: str, action: str, now_ms: int
) -> Refused | None:
    """Why the form does not prove that it is ours; None: it does."""
    found = tokens.check(token, user.name, browser, action, now_ms)
    if found is Proof.OURS:
        return None
    if found is Proof.EXPIRED:
        return Refused(
            403,
            "this form was opened more than an hour ago: nothing was changed",
            "Look whether it still says what you want, and send it again.",
            again=True,
        )
    return Refused(
        403,
        "this form was not made for you, or the dashboards were restarted since it was opened:"
        " nothing was changed",
        "Look whether it says what you want, and send it again.",
        again=True,
    )


def origin_of(address: str) -> str:
    """Scheme and host of an address, as browsers write them: without the port of the scheme."""
    parts = urlsplit(address)
    usual = {"http": ":80", "https": ":443"}.get(parts.scheme, "")
    return f"{parts.scheme}://{parts.netloc.lower().removesuffix(usual)}"
