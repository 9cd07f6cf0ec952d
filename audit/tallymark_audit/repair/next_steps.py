"""What to do about a window, with the commands, and the people to notify. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.untrusted import command, escaped
from tallymark_audit.judge.states import GOOD, State, state_of
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.time_format import utc
from tallymark_audit.store.counted.facts import is_retired
from tallymark_audit.store.reading.window_evidence import Evidence
from tallymark_audit.store.schema.rows import Row, is_cells

NAMED: Final = 5
"""Reporters, applications and groups named."""
WAITING: Final = (State.OPEN, State.SETTLING)
_COPIES: Final = (
    "Copies cannot be taken out of a log: let readers leave out what they have read, by the "
    "server, run and sequence of its stamp."
)


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do. ``command``: a line for a shell that does it, ``""``: there is none."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known besides the evidence. ``settings``: the path of the settings file, for the
    commands; ``silent_before`` (ms): a reporter whose last event came before it is silent;
    ``readers``: the consumer groups that read the topic downstream."""

    window_ms: int
    settings: str = ""
    silent_before: int = 0
    readers: Sequence[str] = ()


def next_steps(
    found: Evidence,
    edge: Edge,
    known: Known,
    repairable: int,
    missing: int,
    folders: Sequence[str] = (),
) -> tuple[Step, ...]:
    """What to do, in this order. ``repairable`` of the ``missing`` messages can be repaired.
    ``folders``: in which brokers have saved some."""
    row = found.verdicts[0]
    state = state_of(row["state"])
    steps: list[Step] = []
    if repairable:
        line = _repair_command(edge, row, known, folders)
        done = "loaded again" if edge.kind == "lake" else "copied"
        again = f"Then the same with --apply: {repairable:,} messages are {done}."
        where = ""
        if folders:
            where = " Brokers have saved them: run it where it can read the folders that it names."
        steps += [
            Step(
                f"See what would be {done}: the plan reads both sides, changes nothing.{where}",
                line,
            ),
            Step(again, f"{line} --apply"),
        ]
    if missing > repairable:
        steps += _of_the_rest(found, edge, row)
    if row["duplicates"]:
        steps.append(Step(_COPIES))
    if state is State.UNKNOWN:
        steps += _silent(found, known)
    if state not in GOOD and state not in WAITING and not row["accepted_by"]:
        later = "What is left then can be accepted" if repairable else "Accept the window"
        steps.append(
            Step(
                f"{later}: the watermark passes it, and what is wrong stays written down.",
                _line("tallymark audit accept", known, edge.name, row["topic"], _moment(row)),
            )
        )
    return tuple(steps)


def whom_to_tell(
    found: Evidence, edge: Edge, known: Known, lost: int, repairable: int
) -> tuple[str, ...]:
    """The people to notify, and of what. ``lost``: messages that cannot be repaired;
    ``repairable``: that can, and come late."""
    row = found.verdicts[0]
    topic, told = escaped(row["topic"]), list[str]()
    if state_of(row["state"]) is State.UNKNOWN:
        told += [
            f"the owners of {escaped(one['application'] or one['reporter'])} on "
            f"{escaped(one['server'])}: it says nothing since {utc(one['last_heard'])}"
            for one in _silent_reporters(found, known)[:NAMED]
        ]
    if lost:
        told += [
            f"the owners of {who}: {lost:,} of the messages of {topic} may have to be sent again"
            for who in _senders(found, row)
        ]
    if edge.kind == "consumer":
        wrong = lost or row["duplicates"]
        return (*told, f"the owners of the group {escaped(edge.group)}") if wrong else tuple(told)
    readers = [escaped(one) for one in known.readers[:NAMED]]
    who = f"the groups {', '.join(readers)}" if readers else f"the readers of {topic}"
    if lost:
        told.append(f"{who} on {edge.downstream}: {lost:,} messages will not come")
    if repairable:
        told.append(f"{who} on {edge.downstream}: {repairable:,} messages come late, by the repair")
    if row["duplicates"]:
        told.append(f"{who} on {edge.downstream}: {row['duplicates']:,} messages came twice")
    return tuple(told)


def _repair_command(edge: Edge, row: Row, known: Known, folders: Sequence[str]) -> str:
    start = row["window"]
    end = start + known.window_ms
    line = _line(
        "tallymark audit repair", known,
        edge=edge.name, topic=row["topic"], from_=_time(start), to=_time(end),
    )  # fmt: skip
    return " ".join([line, *(command("--tails", one) for one in folders[:NAMED])])


def _line(program: str, known: Known, *arguments: str, **options: str) -> str:
    settings = {"settings": known.settings} if known.settings else {}
    return command(program, *arguments, **options, **settings)


def _moment(row: Row) -> str:
    return _time(row["window"])


def _time(ms: int) -> str:
    return str(ms) if ms % 1000 else utc(ms)


def _of_the_rest(found: Evidence, edge: Edge, row: Row) -> list[Step]:
    if edge.kind == "producer":
        who = ", ".join(_senders(found, row)) or "their producers"
        return [Step(f"Ask the owners of {who} to send what no log has once more.")]
    if edge.kind == "consumer":
        group = escaped(edge.group)
        return [Step(f"Let the group {group} read the offsets again that the reasons name.")]
    return []


def _silent(found: Evidence, known: Known) -> list[Step]:
    return [
        Step(
            f"{escaped(one['reporter'])} is silent since {utc(one['last_heard'])}: start it again; "
            "if it died and will not return, retire it.",
            _line("tallymark audit retire", known, one["reporter"]),
        )
        for one in _silent_reporters(found, known)[:NAMED]
    ]


def _silent_reporters(found: Evidence, known: Known) -> list[Row]:
    return [
        one
        for one in found.reporters
        if not one["closed"] and not is_retired(one) and one["last_heard"] < known.silent_before
    ]


def _senders(found: Evidence, row: Row) -> list[str]:
    """The applications and servers of the runs that sent what is missing."""
    cells = row["cells"] if is_cells(row["cells"]) else []
    bad = {cell["instance"]: cell["server"] for cell in cells if cell.get("missing_count")}
    names = {one["instance"]: one["application"] for one in found.reporters}
    told = (
        f"{escaped(names.get(run, '') or 'the producer')} on {escaped(server)}"
        for run, server in bad.items()
        if server
    )
    return _few(told)


def _few(names: Iterable[str]) -> list[str]:
    unique = list(dict.fromkeys(names))
    more = len(unique) - NAMED
    return unique[:NAMED] + ([f"{more:,} more"] if more > 0 else [])
