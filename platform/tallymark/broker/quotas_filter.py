"""Which entity a request about quotas speaks of. Pure.

An entity is a user, or a client id, by name or the default of its kind (a null name). Kafka has
users together with client ids, and addresses, too: those are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tallymark.broker.quotas import KEYS, is_rate
from tallymark.broker.security_store import DEFAULT_NAME
from tallymark.errors import CODES, KafkaError

USER: Final = "user"
CLIENT: Final = "client-id"
EXACT, DEFAULT, ANY = range(3)
"""How a component of a filter is meant (KIP-546)."""


def entity(parts: Sequence[tuple[str, str | None]]) -> tuple[str, str]:
    """(:data:`USER` or :data:`CLIENT`, stored name); KafkaError INVALID_REQUEST."""
    if len(parts) != 1 or parts[0][0] not in (USER, CLIENT):
        raise _invalid("quotas are for one user, or for one client id")
    kind, name = parts[0]
    if name is not None and (not name or len(name) > 255 or name == DEFAULT_NAME):
        raise _invalid(f"{name!r} cannot be the name of a {kind}")
    return kind, DEFAULT_NAME if name is None else name


def value(key: str, rate: float, remove: bool) -> str | None:
    """What is kept of a quota, None to remove it; KafkaError INVALID_REQUEST."""
    if key not in KEYS:
        raise _invalid(f"there is no quota {key!r}, there are {', '.join(KEYS)}")
    if remove:
        return None
    if not is_rate(rate):
        raise _invalid(f"{key} is at least 1 byte a second, not {rate}")
    return repr(float(rate))


def matches(
    kind: str, name: str, components: Sequence[tuple[str, int, str | None]], strict: bool
) -> bool:
    """Whether a filter means an entity of one part; KafkaError INVALID_REQUEST for a filter that
    makes no sense. No components mean every entity, unless ``strict``."""
    kinds = [component[0] for component in components]
    if len(set(kinds)) < len(kinds) or not set(kinds) <= {USER, CLIENT, "ip"}:
        raise _invalid("a filter has each of user, client-id and ip once at most")
    for _, how, match in components:
        if how not in (EXACT, DEFAULT, ANY) or (match is None) is (how == EXACT):
            raise _invalid("a filter gives a name where it means one, else none")
    if not components:
        return not strict
    if len(components) > 1 or kinds[0] != kind:
        return False
    _, how, match = components[0]
    return how == ANY or name == (DEFAULT_NAME if how == DEFAULT else match)


def _invalid(why: str) -> KafkaError:
    return KafkaError(CODES["INVALID_REQUEST"], why)
