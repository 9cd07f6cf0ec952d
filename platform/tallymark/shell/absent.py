"""What a command was asked about and the cluster does not have: one line that names it, and says
where to look.

Brokers answer with codes (UNKNOWN_TOPIC_OR_PARTITION); a person who misspelt a name needs the name,
and the command that lists the right ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.results import Results
from tallymark.client.admin.topics import TopicDescription
from tallymark.errors import KafkaError, TallymarkError, UserError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.shell.positions import parse_partitions

Kind: TypeAlias = Literal["topic", "group", "broker", "user", "transactional id"]

_LISTED_BY: Final[Mapping[Kind, str]] = {
    "topic": "topics list",
    "group": "groups list",
    "broker": "cluster",
    "user": "users list",
    "transactional id": "transactions list",
}
_CODES: Final[Mapping[str, Kind]] = {
    "UNKNOWN_TOPIC_OR_PARTITION": "topic",
    "GROUP_ID_NOT_FOUND": "group",
    "BROKER_NOT_AVAILABLE": "broker",
    "TRANSACTIONAL_ID_NOT_FOUND": "transactional id",
}


def absent(kind: Kind, name: object) -> UserError:
    """The error for a name that the cluster does not have."""
    return UserError(f"there is no {kind} {name}", f"see 'tallymark {_LISTED_BY[kind]}'")


def explained(kind: Kind, name: object, error: TallymarkError) -> TallymarkError:
    """``error``, or :func:`absent` where it says that there is no such thing."""
    if isinstance(error, KafkaError) and _CODES.get(error.name) == kind:
        return absent(kind, name)
    return error


@contextmanager
def asking_about(kind: Kind, name: object) -> Iterator[None]:
    """Raises UserError in place of a KafkaError that says that there is no such thing."""
    try:
        yield
    except KafkaError as error:
        if (told := explained(kind, name, error)) is error:
            raise
        raise told from None


def described_topics(admin: Admin, names: Iterable[str]) -> Mapping[str, TopicDescription]:
    """The topics of these names, or all topics where none is named. UserError: one is not there."""
    found = admin.describe_topics(list(names) or None)
    told = {name: explained("topic", name, error) for name, error in found.errors.items()}
    return Results(found.done, told).check()


def named_partitions(admin: Admin, topic: str, text: str | None = None) -> list[TopicPartition]:
    """The partitions of a topic, or those of them that ``text`` (``0,2-4``) names. UserError: the
    topic is not there, or does not have one of them."""
    there = [part.partition for part in described_topics(admin, [topic])[topic].partitions]
    wanted = parse_partitions(text)
    missing = sorted((wanted or frozenset()) - set(there))
    if missing:
        raise UserError(f"{topic} has no partition {missing[0]}", f"it has {len(there)}, from 0 on")
    return [(topic, part) for part in there if wanted is None or part in wanted]
