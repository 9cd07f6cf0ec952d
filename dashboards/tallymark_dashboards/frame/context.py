"""What every page needs: the deployment, the store, the templates, the static files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import jinja2
from prometheus_client import CollectorRegistry, ProcessCollector

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark.untrusted import LINES, escaped
from tallymark.untrusted import command as shell_line
from tallymark_audit.metrics.source import AuditMetrics
from tallymark_audit.model.time_format import duration, utc
from tallymark_audit.store import Store
from tallymark_dashboards.frame.age import Ages
from tallymark_dashboards.frame.static_files import StaticFiles
from tallymark_dashboards.snapshots.holder import Snapshots
from tallymark_dashboards.snapshots.peeks import Peeks
from tallymark_dashboards.view.charts.latency import told
from tallymark_dashboards.view.marks import MARKS, mark
from tallymark_dashboards.view.names import breakable, name_html
from tallymark_dashboards.view.numbers import number, share, size
from tallymark_dashboards.view.strip import strip_html
from tallymark_dashboards.view.topic_rows import ranges_text, short_time

HERE = Path(__file__).parents[1]
STATIC = HERE / "static"
SHEETS = {"base.css": 0, "tables.css": 1, "states.css": 2, "charts.css": 3, "print.css": 9}
"""The order of the style sheets; those of single pages stand between."""
FILTERS: Final[dict[str, Any]] = {
    "utc": utc,
    "mark": mark,
    "ranges": ranges_text,
    "short": short_time,
    "number": number,
    "share": share,
    "size": size,
    "duration": duration,
    "name": name_html,
    "breakable": breakable,
    "latency": told,
}
"""What templates may do with a value."""


@dataclass(frozen=True)
class Context:
    """One per application."""

    deployment: Deployment
    store: Store
    templates: jinja2.Environment
    static: StaticFiles
    metrics: CollectorRegistry
    ages: Ages
    version: str
    snapshots: Snapshots
    """The state of clusters, groups and the registry, which a background task keeps."""
    peeks: Peeks
    """Messages of a topic, which one page asks a broker for."""
    settings: str = ""
    """The path of the settings file, for the commands on pages."""
    prefix: str = ""
    """Below which path a proxy serves the dashboards, as the settings say: "" or "/tallymark"."""

    @classmethod
    def of(
        cls,
        deployment: Deployment,
        store: Store,
        snapshots: Snapshots | None = None,
        settings: str = "",
    ) -> Context:
        """The context of a deployment's dashboards; without ``snapshots`` nothing is known of its
        clusters."""
        return cls(
            deployment=deployment,
            store=store,
            templates=_templates(settings),
            static=StaticFiles.below(STATIC),
            metrics=_metrics(deployment, store),
            ages=Ages(deployment),
            version=version("tallymark"),
            snapshots=snapshots or Snapshots.of(deployment),
            peeks=Peeks(deployment),
            settings=settings,
            prefix=deployment.dashboards.path_prefix,
        )

    def command(self, program: str, *arguments: str, **options: str) -> str:
        """A line for a shell (:func:`tallymark.untrusted.command`) that finds this deployment,
        wherever it is typed in."""
        return _command(self.settings, program, *arguments, **options)

    @property
    def sheets(self) -> list[str]:
        """The style sheets: those of the look first, that of paper last."""
        found = [name for name in self.static.files if name.startswith("css/")]
        return sorted(found, key=lambda name: SHEETS.get(name.removeprefix("css/"), 5))

    @property
    def has_morph(self) -> bool:
        """Whether the vendored library was built in; without it live pages are replaced whole."""
        return "vendor/idiomorph.min.js" in self.static


@lru_cache(maxsize=4)
def _templates(settings: str) -> jinja2.Environment:
    """Made once a process: templates are compiled when they are used first."""
    found = jinja2.FileSystemLoader(HERE / "templates")
    environment = jinja2.Environment(
        loader=found,
        autoescape=True,
        finalize=_printing,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    # Jinja lists the types of its own filters only.
    filters: dict[str, Any] = environment.filters  # pyright: ignore[reportAssignmentType]
    filters.update(FILTERS)
    functions: dict[str, Any] = environment.globals  # pyright: ignore[reportAssignmentType]
    functions.update(command=partial(_command, settings), marks=MARKS, strip_html=strip_html)
    return environment


def _command(settings: str, program: str, *arguments: str, **options: str) -> str:
    where = {"settings": settings} if settings else {}
    return shell_line(program, *arguments, **options, **where)


def _metrics(deployment: Deployment, store: Store) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(AuditMetrics(store, deployment, now_ms))
    ProcessCollector(registry=registry)
    return registry


def _printing(value: object) -> object:
    """A value as a page shows it. Clients choose names, so characters that do not print are
    escaped, and those that change the direction of text, too."""
    return escaped(value, LINES) if type(value) is str else value
