"""An Airflow sensor that waits for Tallymark's watermark, and holds no worker while it waits.

Put this file beside the DAGs, or into a package that scheduler, workers and triggerer import. The
connection ``tallymark_api`` (type HTTP) has the address of the dashboards: host, port, schema
(``https``), and login and password where they want a log-in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
from airflow.sdk import BaseHook, BaseSensorOperator, Connection
from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import BaseTrigger, TriggerEvent

LONG_POLL_S = 60
"""The API answers when the watermark has moved far enough, or after so long."""
AGAIN_S = 20
"""After an answer that was none: the dashboards restart, or know nothing of the topic yet."""


class CompleteThroughSensor(BaseSensorOperator):
    """Succeeds when every message of ``topic`` that was stamped before ``through`` (ISO, UTC) is
    accounted for on ``edge``; fails after ``timeout``."""

    template_fields = ("edge", "topic", "through")

    def __init__(
        self,
        *,
        edge: str,
        topic: str,
        through: str = "{{ data_interval_end }}",
        conn_id: str = "tallymark_api",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.edge = edge
        self.topic = topic
        self.through = through
        self.conn_id = conn_id

    def execute(self, context: Any) -> None:
        """Hand the waiting to the triggerer, which waits for all sensors in one process."""
        self.defer(
            trigger=WatermarkTrigger(self.edge, self.topic, self.through, self.conn_id),
            method_name="done",
            timeout=timedelta(seconds=self.timeout),
        )

    def done(self, context: Any, event: dict[str, Any]) -> None:
        """What the trigger has found."""
        if event.get("error"):
            raise AirflowException(event["error"])
        self.log.info("%s on %s is complete through %s", self.topic, self.edge, self.through)


class WatermarkTrigger(BaseTrigger):
    """Asks the API until the topic is complete."""

    def __init__(self, edge: str, topic: str, through: str, conn_id: str) -> None:
        super().__init__()
        self.edge = edge
        self.topic = topic
        self.through = through
        self.conn_id = conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments; the password stays in the connection."""
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        return name, {
            "edge": self.edge,
            "topic": self.topic,
            "through": self.through,
            "conn_id": self.conn_id,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: complete, or an error that asking again cannot mend."""
        connection = await BaseHook.aget_connection(self.conn_id)
        async with httpx.AsyncClient(
            base_url=address(connection), auth=log_in(connection), timeout=LONG_POLL_S + 30
        ) as client:
            while True:
                found = await self._ask(client)
                if found is not None:
                    yield TriggerEvent(found)
                    return

    async def _ask(self, client: httpx.AsyncClient) -> dict[str, Any] | None:
        """None: not yet."""
        place = f"/api/v1/audit/watermarks/{quote(self.edge)}/{quote(self.topic, safe='')}"
        query = {"complete_through": self.through, "wait": f"{LONG_POLL_S}s"}
        try:
            answer = await client.get(place, params=query)
        except httpx.TransportError:
            await asyncio.sleep(AGAIN_S)
            return None
        if answer.is_success:
            return {"complete": True} if answer.json()["complete"] else None
        if answer.status_code in (401, 403, 422):
            return {"error": f"{answer.status_code} from {answer.url}: {answer.text[:300]}"}
        await asyncio.sleep(AGAIN_S)  # 404: the topic has no watermark yet; 503: the store is away
        return None


def address(connection: Connection) -> str:
    """The dashboards' address. Airflow's connections have the protocol where URLs have none."""
    port = f":{connection.port}" if connection.port else ""
    return f"{connection.schema or 'http'}://{connection.host}{port}"


def log_in(connection: Connection) -> httpx.BasicAuth | None:
    """Where the dashboards want one."""
    if not connection.login:
        return None
    return httpx.BasicAuth(connection.login, connection.password or "")
