"""Carrying out a plan: the mode IMPORT, registrations, soft deletions, levels, modes.

The modes are put back whatever happens, but for a kill; then the next import puts them right.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Final

from tallymark.errors import TallymarkError, UserError
from tallymark.serialization import RegistryError
from tallymark_schema_registry.transfer.lines import UnreadableError
from tallymark_schema_registry.transfer.plan import DEFAULT_PLACE, IMPORT, Plan, is_context
from tallymark_schema_registry.transfer.reading import THREADS
from tallymark_schema_registry.transfer.remote import RemoteRegistry
from tallymark_schema_registry.transfer.snapshot import Place, Snapshot, Version

_MOST_FAILED: Final = 100
"""After so many refusals the rest is not tried."""
_PORTION: Final = 512
_STILL_IMPORT: Final = 3
_FAILED: Final = 500
_NOT_SERVED: Final = (404, 405)


@dataclass(slots=True)
class Done:
    """What one run did. ``failed``: one line for each refusal."""

    registered: int = 0
    deleted: int = 0
    configs: int = 0
    modes: int = 0
    failed: list[str] = field(default_factory=list)
    stopped: bool = False


class ImportRun:
    """One plan, into one registry. ``stop`` ends it early; ``tick`` is called after each step."""

    def __init__(
        self,
        registry: RemoteRegistry,
        plan: Plan,
        target: Snapshot,
        stop: threading.Event,
        tick: Callable[[Done], object],
    ) -> None:
        self._registry = registry
        self._plan = plan
        self._target = target
        self._stop = stop
        self._tick = tick
        self._deleted: set[Place] = set()
        self._lock = threading.Lock()
        self.done = Done()

    def run(self) -> Done:
        """Everything that the plan says. What the registry refuses is noted, and the rest goes on;
        raises what ends all: no connection, no right."""
        plan = self._plan
        level = plan.configs.get(DEFAULT_PLACE, {}).get("compatibilityLevel")
        if level and not self._target.versions:
            # Now, while no client can have meant what the registry has by itself.
            self._registry.set_config(DEFAULT_PLACE, {"compatibilityLevel": level})
        with self._importing(plan.places(self._target)):
            self._register_all()
            for place in plan.delete:
                if self._ends():
                    break
                self._delete(place)
        if not self._ends():
            self._configure()
        self.done.stopped = self._stop.is_set()
        return self.done

    @contextmanager
    def _importing(self, places: list[str]) -> Iterator[None]:
        """The mode IMPORT at these places, and afterwards what it was."""
        before = {place: self._target.modes.get(place) for place in places}
        switched: list[str] = []
        try:
            for place in places:
                if before[place] != IMPORT:
                    self._begin(place, switched)
            yield
        except BaseException as error:
            self._put_back(switched, before, f"{error}; ")
            raise
        self._put_back(switched, before, "")

    def _begin(self, place: str, switched: list[str]) -> None:
        switched.append(place)
        try:
            self._registry.set_mode(place, IMPORT)
        except RegistryError as error:
            if error.status < _FAILED:
                switched.pop()  # refused, so there is nothing to put back
            if error.status not in _NOT_SERVED:
                raise
            raise UserError(
                "the target has no mode IMPORT, so it cannot take ids and versions from elsewhere",
                "import into another registry",
            ) from error

    def _put_back(self, places: list[str], before: dict[str, str | None], why: str) -> None:
        try:
            for place in reversed(places):
                self._registry.set_mode(place, before[place])
        except TallymarkError as error:
            raise UserError(
                f"{why}the registry is still in the mode IMPORT: {error}",
                "start the import again, or set it with 'tallymark schema mode --set READWRITE'",
                exit_code=_STILL_IMPORT,
            ) from error

    def _register_all(self) -> None:
        """Several at once; each after what it needs."""
        coming = {one.place: one for one in self._plan.register}
        order = TopologicalSorter(self._plan.needs)
        order.prepare()
        running: dict[Future[None], Place] = {}
        with ThreadPoolExecutor(THREADS, "import") as pool:
            try:
                while order.is_active() and not self._ends():
                    for place in order.get_ready():
                        running[pool.submit(self._register, coming[place])] = place
                    ended, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in ended:
                        order.done(running.pop(future))
                        future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _register(self, version: Version) -> None:
        if self._ends():
            return
        for place in self._plan.delete_before.get(version.place, ()):
            self._delete(place)

        def register() -> None:
            found = self._registry.register(version)
            if found != version.schema_id:
                raise UnreadableError(f"it got the id {found}, not {version.schema_id}")

        self._try(_shown(version.place), register, "registered")

    def _delete(self, place: Place) -> None:
        if place not in self._deleted:
            self._deleted.add(place)
            self._try(_shown(place), lambda: self._registry.delete(place), "deleted")

    def _configure(self) -> None:
        """Levels, then modes; those of contexts at the end, since they hold for all below."""
        plan, registry = self._plan, self._registry

        def configure(place: str) -> None:
            self._try(place, lambda: registry.set_config(place, plan.configs[place]), "configs")

        def switch(place: str) -> None:
            self._try(place, lambda: registry.set_mode(place, plan.modes[place]), "modes")

        with ThreadPoolExecutor(THREADS, "import") as pool:
            for todo, places in ((configure, plan.configs), (switch, plan.modes)):
                for contexts in (False, True):
                    chosen = [one for one in sorted(places) if is_context(one) is contexts]
                    for begin in range(0, len(chosen), _PORTION):
                        if not self._ends():
                            list(pool.map(todo, chosen[begin : begin + _PORTION]))

    def _try(self, where: str, action: Callable[[], None], counted: str) -> None:
        """Do it and count it, or note that the registry refused."""
        try:
            action()
        except (RegistryError, UnreadableError) as error:
            if isinstance(error, RegistryError) and (
                error.status >= _FAILED or error.status == 401
            ):
                raise  # it cannot do anything, or does not know us
            with self._lock:
                self.done.failed.append(f"{where or 'the default context'}: {error}")
            return
        with self._lock:
            setattr(self.done, counted, getattr(self.done, counted) + 1)
            self._tick(self.done)

    def _ends(self) -> bool:
        return self._stop.is_set() or len(self.done.failed) >= _MOST_FAILED


def _shown(place: Place) -> str:
    return f"{place[0]} version {place[1]}"
