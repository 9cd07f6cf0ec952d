"""Reads the entities and filters in requests about quotas. Pure.

An entity is a user, a client id, or both together, each by name or the default of its kind (a null
name). Kafka has addresses, too: those are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tallymark.broker.security.quotas import KEYS, Place, is_rate
from tallymark.broker.settings.dynamic import DEFAULT_NAME
from tallymark.errors import CODES, KafkaError

USER: Final = "user"
CLIENT: Final = "client-id"
IP: Final = "ip"
EXACT, DEFAULT, ANY = range(3)
"""The match types of a filter's component (KIP-546)."""


def entity(parts: Sequence[tuple[str, str | None]]) -> Place:
    """The stored names of user and client id, None for one that is not part of the entity;
    KafkaError INVALID_REQUEST."""
    names: dict[str, str] = {}
    for kind, name in parts:
        if kind not in (USER, CLIENT) or kind in names:
            raise _invalid("quotas are for one user, one client id, or one of each together")
        if name is not None and (not name or len(name) > 255 or name == DEFAULT_NAME):
            raise _invalid(f"{name!r} cannot be the name of a {kind}")
        names[kind] = DEFAULT_NAME if name is None else name
    if not names:
        raise _invalid("quotas are for a user, a client id, or both")
    return names.get(USER), names.get(CLIENT)


def value(key: str, rate: float, remove: bool) -> str | None:
    """The text to store for a quota, None to remove it; KafkaError INVALID_REQUEST."""
    if key not in KEYS:
        raise _invalid(f"there is no quota {key!r}, there are {', '.join(KEYS)}")
    if remove:
        return None
    if not is_rate(rate):
        raise _invalid(f"{key} is at least 1 byte a second, not {rate}")
    return repr(float(rate))


def check_filter(components: Sequence[tuple[str, int, str | None]]) -> None:
    """KafkaError INVALID_REQUEST for an invalid filter."""
    kinds = [component[0] for component in components]
    if len(set(kinds)) < len(kinds) or not set(kinds) <= {USER, CLIENT, IP}:
        raise _invalid("a filter has each of user, client-id and ip once at most")
    if IP in kinds and len(kinds) > 1:
        raise _invalid("a filter for addresses has neither users nor client ids")
    for _, how, match in components:
        if how not in (EXACT, DEFAULT, ANY) or (match is None) is (how == EXACT):
            raise _invalid("a filter gives a name where it means one, else none")


def matches(place: Place, components: Sequence[tuple[str, int, str | None]], strict: bool) -> bool:
    """Whether a checked filter matches an entity: the entity has each of the components, and, if
    the filter is ``strict``, nothing else. A filter without components matches every entity, unless
    ``strict``."""
    names = {kind: name for kind, name in zip((USER, CLIENT), place, strict=True) if name}
    if strict and len(components) != len(names):
        return False
    for kind, how, match in components:
        if kind not in names:
            return False
        if how != ANY and names[kind] != (DEFAULT_NAME if how == DEFAULT else match):
            return False
    return True


def _invalid(why: str) -> KafkaError:
    return KafkaError(CODES["INVALID_REQUEST"], why)
