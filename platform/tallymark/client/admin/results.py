"""The results of a request about many things: some may succeed while others fail."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.protocol.topic_partition import TopicPartition

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

"""(topic, partition)"""
Outcomes: TypeAlias = dict[K, V | TallymarkError]


@dataclass(frozen=True)
class Results(Generic[K, V]):
    """``done`` holds the values of the keys that succeeded, ``errors`` the errors of the rest.
    Indexing returns the value of one key or raises its error; iterating goes over the keys that
    succeeded."""

    done: Mapping[K, V] = field(default_factory=dict[K, V])
    errors: Mapping[K, TallymarkError] = field(default_factory=dict[K, TallymarkError])

    @classmethod
    def of(cls, outcomes: Mapping[K, V | TallymarkError]) -> Results[K, V]:
        """Sort values from errors."""
        done: dict[K, V] = {}
        errors: dict[K, TallymarkError] = {}
        for key, outcome in outcomes.items():
            if isinstance(outcome, TallymarkError):
                errors[key] = outcome
            else:
                done[key] = outcome
        return cls(done, errors)

    def check(self) -> Mapping[K, V]:
        """Return ``done`` if all succeeded; else raise the first error, whose text says how many
        others there are."""
        for error in self.errors.values():
            if len(self.errors) > 1:
                error.add_note(f"and {len(self.errors) - 1} more failed")
            raise error
        return self.done

    def __getitem__(self, key: K) -> V:
        if key in self.errors:
            raise self.errors[key]
        return self.done[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self.done)

    def __len__(self) -> int:
        return len(self.done)


def refusal(code: int, context: str, message: str | None = None) -> KafkaError:
    """The error for a code in a response, with the broker's own message where it adds something."""
    words = (message or "").removesuffix(str(KafkaError(code))).strip(" :")
    if words[:1] == words[-1:] == "'":
        words = words.strip("'")  # a name, which the context has without quotes
    return KafkaError(code, context if words in context else f"{context}: {words}")


def unanswered(context: str) -> KafkaError:
    """The error for a key that a response leaves out."""
    return KafkaError(CODES["UNKNOWN_SERVER_ERROR"], f"{context}: the broker's answer lacks it")


def by_topic(partitions: Mapping[TopicPartition, Any]) -> dict[str, dict[int, Any]]:
    """``{(topic, partition): x}`` -> ``{topic: {partition: x}}``, as requests are built."""
    found: dict[str, dict[int, Any]] = {}
    for (topic, partition), value in partitions.items():
        found.setdefault(topic, {})[partition] = value
    return found
