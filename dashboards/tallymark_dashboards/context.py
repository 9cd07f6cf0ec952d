"""What every route needs: the deployment, the store, the templates."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2  # without this, fastapi.templating reports a missing jinja2 only at first use
from fastapi import Request
from fastapi.templating import Jinja2Templates
from prometheus_client import CollectorRegistry, ProcessCollector

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark.untrusted import LINES, command, escaped
from tallymark_audit.metrics.source import AuditMetrics
from tallymark_audit.model.time_format import utc
from tallymark_audit.store import Store
from tallymark_dashboards.live import Changes
from tallymark_dashboards.marks import mark
from tallymark_dashboards.view import evidence_href, ranges_text, short_time

HERE = Path(__file__).parent
STATIC = HERE / "static"


@dataclass(frozen=True)
class Context:
    """One per application. ``has_htmx``: whether the vendored libraries were built in."""

    deployment: Deployment
    store: Store
    templates: Jinja2Templates
    changes: Changes
    metrics: CollectorRegistry
    has_htmx: bool
    version: str

    @classmethod
    def of(cls, deployment: Deployment, store: Store) -> Context:
        """The context of a deployment's dashboards."""
        found = jinja2.FileSystemLoader(HERE / "templates")
        environment = jinja2.Environment(loader=found, autoescape=True, finalize=_printing)
        templates = Jinja2Templates(env=environment)
        # Jinja lists the types of its own filters only.
        filters: dict[str, Any] = templates.env.filters  # pyright: ignore[reportAssignmentType]
        filters.update(utc=utc, mark=mark, ranges=ranges_text, short=short_time)
        functions: dict[str, Any] = templates.env.globals  # pyright: ignore[reportAssignmentType]
        functions["evidence_href"] = evidence_href
        functions["command"] = command
        return cls(
            deployment=deployment,
            store=store,
            templates=templates,
            changes=Changes(store),
            metrics=_metrics(deployment, store),
            has_htmx=(STATIC / "vendor" / "htmx.min.js").is_file(),
            version=version("tallymark"),
        )


def _metrics(deployment: Deployment, store: Store) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(AuditMetrics(store, deployment, now_ms))
    ProcessCollector(registry=registry)
    return registry


def context_of(request: Request) -> Context:
    """The context of the application that serves the request."""
    context: Context = request.app.state.context
    return context


def _printing(value: object) -> object:
    """A value as a page shows it. Clients choose names, so characters that do not print are
    escaped, and those that change the direction of text, too."""
    return escaped(value, LINES) if type(value) is str else value
