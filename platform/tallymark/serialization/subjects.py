"""Under which subject a schema is registered: the strategies of Confluent's serializers."""

from __future__ import annotations

from collections.abc import Callable

from tallymark.errors import UserError

SubjectStrategy = Callable[[str, str, bool], str]
"""(topic, full name of the schema's record or "", whether it is the key's) -> subject."""


def topic_name_subject(topic: str, is_key: bool = False) -> str:
    """The subject of a topic's values (or keys) by TopicNameStrategy, every client's default."""
    return f"{topic}-key" if is_key else f"{topic}-value"


def by_topic(topic: str, _record: str, is_key: bool) -> str:
    """TopicNameStrategy: one type of record in a topic."""
    return topic_name_subject(topic, is_key)


def by_record(_topic: str, record: str, _is_key: bool) -> str:
    """RecordNameStrategy: a type of record evolves alike in all topics.

    Raises UserError if the schema has no name."""
    if not record:
        raise UserError(
            "a schema without a name has no subject of its own",
            "give a record's schema, or let subjects go by topic",
        )
    return record


def by_topic_and_record(topic: str, record: str, is_key: bool) -> str:
    """TopicRecordNameStrategy: several types of record in a topic.

    Raises UserError if the schema has no name."""
    return f"{topic}-{by_record(topic, record, is_key)}"
