"""The shape of a mirror's settings: which topics are copied, and what the target calls them."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tallymark.deployment.parts import LOOPBACK, Name, Part
from tallymark.patterns import require_patterns


class Mirror(Part):
    """``source`` is copied into ``target``; ``topics`` is a regular expression on topic names."""

    source: Name
    """The cluster that is copied."""
    target: Name
    """The cluster that is copied into."""
    embedded: bool = True
    """Whether ``tallymark up`` starts it; false: another program copies (MirrorMaker), and the hop
    is judged by what arrives."""
    topics: str = ".*"
    """A regular expression; a topic is copied if all of its name matches. Internal ones (leading
    ``_``) never are."""
    exclude: str = ""
    """Another one: topics whose whole name matches are not copied, even if ``topics`` matches."""
    rename: str = "{topic}"
    """What a topic is called at the target: ``{topic}``, ``{source}`` and ``{target}`` are filled
    in, as in ``{source}.{topic}``."""
    renames: dict[str, str] = Field(default_factory=dict)
    """Before that: regular expression on a whole name -> what the target calls such a topic, with
    ``\\1`` for its first group. The first that matches counts."""
    partitions: Literal["keep", "by-key"] = "keep"
    """``keep``: what is in partition 3 stays in partition 3, where the target has as many; where it
    has fewer, or with ``by-key``, the key decides, as with a producer."""
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    """Whether what transactions of the source aborted is left out; then what they have not ended
    yet is waited for."""
    on_corrupt: Literal["stop", "skip"] = "skip"
    """What becomes of a batch of the source whose CRC does not hold, each time it is read: it is
    left out, logged, and reported as a gap of kind ``corrupt``, so what it held is LOSS until it is
    repaired; or its partition waits there, and is named, until the log is repaired. What
    cannot be repaired, because it was sent like that, is left out in any case."""
    max_repeated_records: Annotated[int, Field(ge=1)] = 100_000
    """What a process that is killed may leave there twice: so many records at most are under way
    or not stored as copied, or one batch if that has more."""
    checkpoint_groups: str = ""
    """A regular expression: the offsets that such consumer groups have committed at the source are
    translated, and committed at the target, every few seconds."""
    metrics_host: str = LOOPBACK
    """Where ``/metrics`` listens."""
    metrics_port: Annotated[int, Field(ge=-1, le=65535)] = -1
    """Its port; -1: there are no metrics."""
    metrics_allow_plaintext: bool = False
    """Whether other machines may reach it without TLS or without a log-in."""

    @model_validator(mode="after")
    def _rules_can_be_read(self) -> Self:
        patterns = (self.topics, self.exclude, self.checkpoint_groups, *self.renames)
        require_patterns(f"mirror {self.name}", patterns)
        try:
            if "x" not in self.rename.format(topic="x", source="", target=""):
                raise ValueError("it lacks {topic}")
            for pattern, name in self.renames.items():
                re.compile(pattern).sub(name, "")
        except (KeyError, IndexError, ValueError, re.error) as error:
            raise ValueError(f"mirror {self.name}: the renaming cannot be read: {error}") from error
        return self

    @model_validator(mode="after")
    def _no_two_become_one(self) -> Self:
        """Refuse two topics with one name at the target. Only topics named in the settings are
        known here: patterns that are plain names."""
        names: dict[str, str] = {}
        for topic in filter(_is_name, self.renames):
            if not self.copies(topic):
                continue
            target = self.target_topic(topic)
            other = names.setdefault(target, topic)
            if other != topic:
                raise ValueError(
                    f"mirror {self.name}: {other!r} and {topic!r} would both be called {target!r}, "
                    "and their records could not be told apart: give each a name of its own"
                )
        return self

    @property
    def name(self) -> str:
        return f"{self.source}-to-{self.target}"

    def copies(self, topic: str) -> bool:
        """Whether the mirror copies the source's topic of that name."""
        if topic.startswith("_") or not re.fullmatch(self.topics, topic):
            return False
        return not (self.exclude and re.fullmatch(self.exclude, topic))

    def target_topic(self, topic: str) -> str:
        """The name of the source's topic at the target."""
        for pattern, name in self.renames.items():
            found = re.fullmatch(pattern, topic)
            if found:
                return found.expand(name)
        return self.rename.format(topic=topic, source=self.source, target=self.target)


def _is_name(pattern: str) -> bool:
    """Whether a regular expression is also the name of a topic, which it then matches."""
    return bool(re.fullmatch(r"[A-Za-z0-9._-]+", pattern))
