"""What an import has to do: the difference between a snapshot and what the target holds. Pure.

The target is empty, or agrees: what it has already is left alone, and what contradicts the source
is a conflict, with which nothing at all is done. So an import can be repeated, and one that was
killed goes on: its progress is what the target holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, Final

from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject, parse_subject
from tallymark_schema_registry.transfer.same import difference, same_content
from tallymark_schema_registry.transfer.snapshot import Place, Snapshot, Version, in_order

IMPORT: Final = "IMPORT"
READWRITE: Final = "READWRITE"
_LEVEL: Final = "compatibilityLevel"
DEFAULT_PLACE: Final = ""
"""The default context's own level and mode. A registry always has them, set or not."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """The target has something else at ``where``. ``difference``: what differs between texts."""

    where: str
    what: str
    difference: str = ""


@dataclass(slots=True)
class Plan:
    """``register`` by context, id, subject, number; ``needs`` says which of them must be there
    before one. ``delete_before``: a version has the schema of earlier ones of its subject, which
    are softly deleted, and must be so before it comes: a registry would take it for one of them.
    ``delete``: the other soft deletions, in this order. ``modes`` None: not set.

    ``same``: versions that are there. ``extra``: versions that only the target has.
    """

    register: list[Version] = field(default_factory=list)
    needs: dict[Place, set[Place]] = field(default_factory=dict)
    delete_before: dict[Place, list[Place]] = field(default_factory=dict)
    delete: list[Place] = field(default_factory=list)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    modes: dict[str, str | None] = field(default_factory=dict)
    same: int = 0
    extra: list[Place] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.register or self.delete or self.configs or self.modes)

    def deletions(self) -> int:
        """How many versions are to be deleted softly."""
        return len(self.delete) + len({one for each in self.delete_before.values() for one in each})

    def places(self, target: Snapshot) -> list[str]:
        """Where the mode must be IMPORT meanwhile: the contexts of what is registered or deleted,
        and subjects of it that have a mode of their own."""
        subjects = {one.subject for one in self.register} | {subject for subject, _ in self.delete}
        contexts = {context_place(parse_subject(subject).context) for subject in subjects}
        return sorted(contexts) + sorted(subjects & set(target.modes))


def plan(source: Snapshot, target: Snapshot) -> Plan:
    """What makes ``target`` hold all of ``source``."""
    made = Plan()
    made.extra = sorted(set(target.versions) - set(source.versions))
    _plan_versions(made, source, target)
    _plan_order(made)
    _plan_deletions(made, source, target)
    _plan_configs(made, source, target)
    _plan_modes(made, source, target)
    return made


def _plan_versions(made: Plan, source: Snapshot, target: Snapshot) -> None:
    by_id, there = target.contents(), target.versions
    first: dict[tuple[str, int], Version] = {}
    for one in in_order(source.versions.values()):
        owner = first.setdefault((one.context, one.schema_id), one)
        if not same_content(one.content, owner.content, one.context):
            what = f"its id {one.schema_id} is another schema in {_shown(owner.place)}"
            made.conflicts.append(
                Conflict(_shown(one.place), f"the source contradicts itself: {what}")
            )
        elif conflict := _conflict(one, there.get(one.place), by_id):
            made.conflicts.append(conflict)
        elif one.place in there:
            made.same += 1
        else:
            made.register.append(one)


def _conflict(
    one: Version, there: Version | None, by_id: dict[tuple[str, int], Any]
) -> Conflict | None:
    where, context = _shown(one.place), one.context
    if there is None:
        content = by_id.get((context, one.schema_id))
        if content is None or same_content(content, one.content, context):
            return None
        what = f"id {one.schema_id} is another schema in the target"
        return Conflict(where, what, difference(content, one.content, context))
    if not same_content(there.content, one.content, context):
        what = f"another schema in the target (id {there.schema_id}, here {one.schema_id})"
        return Conflict(where, what, difference(there.content, one.content, context))
    if there.schema_id != one.schema_id:
        return Conflict(where, f"id {there.schema_id} in the target, here {one.schema_id}")
    if there.deleted and not one.deleted:
        return Conflict(where, "softly deleted in the target, not here")
    return None


def _plan_order(made: Plan) -> None:
    """Every version after those that it refers to, and those of its subject before it."""
    coming = {one.place: one for one in made.register}
    for one in made.register:
        made.needs[one.place] = {place for place in one.references() if place in coming}
    for before, after in pairwise(sorted(coming)):
        if before[0] == after[0]:
            made.needs[after].add(before)
    try:
        TopologicalSorter(made.needs).prepare()
    except CycleError as error:
        circle = " needs ".join(_shown(place) for place in error.args[1])
        made.conflicts.append(Conflict(circle, "the source contradicts itself: a circle"))


def _plan_deletions(made: Plan, source: Snapshot, target: Snapshot) -> None:
    """Those that refer to others before these."""
    there = {place for place, one in target.versions.items() if one.deleted}
    wanted = {place for place, one in source.versions.items() if one.deleted} - there
    by_schema: dict[tuple[str, int], list[Place]] = defaultdict(list)
    referrers: dict[Place, set[Place]] = defaultdict(set)
    for place in sorted(wanted):
        by_schema[place[0], source.versions[place].schema_id].append(place)
        for other in source.versions[place].references():
            referrers[other].add(place)
    for one in made.register:
        earlier = by_schema.get((one.subject, one.schema_id), ())
        if before := {place for place in earlier if place < one.place}:
            group = _with_referrers(before, referrers)
            made.delete_before[one.place] = _referrers_first(group, source)
            _need(made, one.place, group)
    wanted -= {one for each in made.delete_before.values() for one in each}
    made.delete = _referrers_first(wanted, source)


def _with_referrers(places: set[Place], referrers: Mapping[Place, set[Place]]) -> set[Place]:
    """These, and all that refer to them, which a registry wants to be deleted before."""
    found, new = set(places), set(places)
    while new:
        new = {other for place in new for other in referrers.get(place, ())} - found
        found |= new
    return found


def _need(made: Plan, one: Place, group: set[Place]) -> None:
    """``one`` comes after the ``group``, whose versions could not be registered once those that
    they refer to are deleted. Where that is a circle, no order would do."""
    before = made.needs[one]
    made.needs[one] = before | ({each.place for each in made.register} & group - {one})
    try:
        TopologicalSorter(made.needs).prepare()
    except CycleError:
        made.needs[one] = before


def _referrers_first(places: set[Place], source: Snapshot) -> list[Place]:
    needs = {
        place: {other for other in source.versions[place].references() if other in places}
        for place in sorted(places)
    }
    with suppress(CycleError):  # there is a conflict about it
        return list(TopologicalSorter(needs).static_order())[::-1]
    return []


def _plan_configs(made: Plan, source: Snapshot, target: Snapshot) -> None:
    for place, config in source.configs.items():
        there = dict(target.configs.get(place, {}))
        if _LEVEL not in config:
            there.pop(_LEVEL, None)  # some registries report the level that is in force
        if there == config:
            continue
        other = {name for name in there if there[name] != config.get(name)}
        if other and not (place == DEFAULT_PLACE and not target.versions):
            said = ", ".join(f"{name} {there[name]}" for name in sorted(other))
            what = f"configured otherwise in the target: {said}"
            made.conflicts.append(Conflict(_owner(place), what))
        else:
            made.configs[place] = config


def _plan_modes(made: Plan, source: Snapshot, target: Snapshot) -> None:
    """Modes of the source; where it has none, the end of an import that did not end. READWRITE of
    the default context counts as not set: the two look the same, and an import that was stopped
    leaves it so."""
    for place in sorted({*source.modes, *target.modes}):
        there = target.modes.get(place)
        wanted = source.modes.get(place) or (READWRITE if place == DEFAULT_PLACE else None)
        if there == wanted:
            continue
        if place not in source.modes:
            if there == IMPORT and is_context(place):
                made.modes[place] = wanted
        elif there in (None, IMPORT) or (place == DEFAULT_PLACE and there == READWRITE):
            made.modes[place] = wanted
        else:
            made.conflicts.append(
                Conflict(_owner(place), f"mode {there} in the target, here {wanted}")
            )


def wrong_after(source: Snapshot, target: Snapshot) -> Iterator[str]:
    """What the target does not hold of the source, one line each."""
    left = plan(source, target)
    for conflict in left.conflicts:
        yield f"{conflict.where}: {conflict.what}"
    for one in left.register:
        yield f"{_shown(one.place)}: not there"
    for place in left.delete:
        yield f"{_shown(place)}: not deleted"
    for owner in left.configs:
        yield f"{_owner(owner)}: its configuration is not set"
    for owner in left.modes:
        yield f"{_owner(owner)}: its mode is not set"


def context_place(context: str) -> str:
    """Where the level and the mode of a context are."""
    return Subject(context, "").qualified


def is_context(place: str) -> bool:
    """Whether it is the place of a context itself, not of a subject."""
    return not parse_subject(place).name


def _shown(place: Place) -> str:
    return f"{place[0]} version {place[1]}"


def _owner(place: str) -> str:
    if place == DEFAULT_PLACE:
        return f"context {DEFAULT_CONTEXT}"
    return f"context {parse_subject(place).context}" if is_context(place) else f"subject {place}"
