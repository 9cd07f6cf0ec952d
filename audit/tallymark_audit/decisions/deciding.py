"""Accept a window, retire a reporter, pause the alerts; and record the author."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark.trail import Doer, record_command, user_of_command
from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.time_format import utc
from tallymark_audit.store import Store
from tallymark_audit.store.counted import claims
from tallymark_audit.store.judged import alerts
from tallymark_audit.store.judged import verdicts as written
from tallymark_audit.store.judged.decisions import About, Decision, note_decision
from tallymark_audit.store.judged.window_at import window_at


@dataclass(frozen=True)
class Decider:
    """Takes the decisions of one person, the ``doer``, into the store of the deployment.

    The store gets the decision and its author in one transaction; the line of the trail
    follows, and a warning where it cannot be written."""

    store: Store
    deployment: Deployment
    doer: Doer = field(default_factory=user_of_command)
    now: Callable[[], int] = now_ms

    def accept(
        self, edge: str, topic: str, window: int, name: str, note: str = ""
    ) -> tuple[int, State]:
        """Let the watermark pass a window (its start, or a time in it) though it is not good;
        ``name``: the author; empty: an acceptance is withdrawn. The window's start and its
        state. UserError: there is no such window, or nothing to accept."""
        now, window_ms = self.now(), self.deployment.audit.window_ms
        with self.store.write() as connection:
            window = window_at(connection, edge, topic, window, window_ms)
            place = edge, topic, window
            state = written.accept(connection, *place, name, note, now, window_ms)
            decision = Decision(
                self.doer,
                "accept" if name else "withdraw",
                About(edge, topic, window, window + window_ms),
                note,
                detail={"state": str(state), "by": name},
            )
            note_decision(connection, now, decision)
        self._record(
            "ACCEPT_WINDOW" if name else "WITHDRAW_ACCEPTANCE",
            ("window", f"{topic} on {edge} at {utc(window)}"),
            {"state": state, "by": name, "note": note},
        )
        return window, state

    def retire(self, reporter: str, note: str = "") -> list[str]:
        """End a reporter that will not return: windows no longer wait for it. The clusters that
        knew it. UserError: it is not known."""
        now = self.now()
        with self.store.write() as connection:
            clusters = claims.retire(connection, reporter, now)
            decision = Decision(
                self.doer, "retire", About(subject=reporter), note, detail={"clusters": clusters}
            )
            note_decision(connection, now, decision)
        self._record("RETIRE_REPORTER", ("reporter", reporter), {"clusters": list(clusters)})
        return clusters

    def pause(self, for_ms: int, note: str = "") -> int:
        """Post no alerts for so long; 0: end a pause. Until when (ms), 0: there is no pause."""
        now = self.now()
        until = now + for_ms if for_ms else 0
        with self.store.write() as connection:
            alerts.pause(connection, until)
            detail = {"until": until} if until else {}
            action = "pause" if until else "resume"
            note_decision(
                connection, now, Decision(self.doer, action, About(), note, detail=detail)
            )
        self._record(
            "PAUSE_ALERTS" if until else "RESUME_ALERTS",
            ("deployment", self.deployment.name),
            {"until": utc(until), "note": note} if until else {"note": note},
        )
        return until

    def _record(self, action: str, resource: tuple[str, str], after: dict[str, Any]) -> None:
        folder: Path = self.deployment.data_dir.absolute()
        record_command(self.now(), action, resource, after=after, folder=folder, doer=self.doer)
