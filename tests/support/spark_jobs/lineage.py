"""A catalogue of lineage, and the classes of OpenLineage's own client, which are generated from the
specification and refuse what it has no field for."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from typing import Any

import pytest

Asked = tuple[str, str, Any]
"""Path, authorization, body."""


@contextmanager
def catalogue(status: int) -> Iterator[tuple[str, list[Asked]]]:
    """A server that answers with ``status``: its address, and what it was asked."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, self.headers.get("Authorization", ""), json.loads(body)))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", asked
        finally:
            server.shutdown()
            thread.join()


def assert_openlineage(told: Mapping[str, Any]) -> None:
    """The event, its datasets and facets are made by the client's classes, and name the schemas
    that these are of."""
    event_v2 = pytest.importorskip("openlineage.client.event_v2", reason="it is in the group dev")
    generated = "openlineage.client.generated"
    quality_facet = import_module(f"{generated}.data_quality_assertions_dataset")
    version_facet = import_module(f"{generated}.dataset_version_dataset")
    statistics_facet = import_module(f"{generated}.output_statistics_output_dataset")

    def facet(kind: Any, given: dict[str, Any]) -> None:
        fields = {name: value for name, value in given.items() if not name.startswith("_")}
        assert kind(**fields)._schemaURL == given["_schemaURL"]

    for each in told["inputs"]:
        quality = each["inputFacets"]["dataQualityAssertions"]
        asserted = [quality_facet.Assertion(**one) for one in quality["assertions"]]
        facet(
            quality_facet.DataQualityAssertionsDatasetFacet,
            {**quality, "assertions": asserted},
        )
    for each in told["outputs"]:
        facet(version_facet.DatasetVersionDatasetFacet, each["facets"]["version"])
        facet(
            statistics_facet.OutputStatisticsOutputDatasetFacet,
            each["outputFacets"]["outputStatistics"],
        )
    made = event_v2.RunEvent(
        eventTime=told["eventTime"],
        producer=told["producer"],
        run=event_v2.Run(**told["run"]),
        job=event_v2.Job(**told["job"]),
        eventType=event_v2.RunState[told["eventType"]],
        inputs=[event_v2.InputDataset(each["namespace"], each["name"]) for each in told["inputs"]],
        outputs=[
            event_v2.OutputDataset(each["namespace"], each["name"]) for each in told["outputs"]
        ],
    )
    assert made.schemaURL == told["schemaURL"]
