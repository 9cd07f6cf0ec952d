"""Python's clients of the two message queues: stomp.py for ActiveMQ, pika for RabbitMQ."""

from __future__ import annotations

import threading
from typing import Any, Final

from support.paper.meter import PREFETCH, SURPLUS_SECONDS, Job, Meter

_PATIENCE: Final = 60.0
_WINDOW: Final = 5000
"""Messages that were sent to RabbitMQ and are not confirmed yet."""
_BURST: Final = 100
"""Messages that are sent before pika's loop gets its turn."""


def activemq_produce(job: Job, meter: Meter) -> None:
    """Persistent messages, sent without waiting; the broker's receipt for the last says that it has
    all of them."""
    import stomp

    connection, queue = _stomp(job), f"/queue/{job['topic']}"
    value, size = "x" * job["size"], job["size"]
    received = threading.Event()

    class Receipt(stomp.ConnectionListener):  # type: ignore[misc]  # stomp.py has no types
        def on_receipt(self, frame: Any) -> None:
            received.set()

    connection.set_listener("receipt", Receipt())
    # Text without a content-length is a TextMessage; with it, as here, a BytesMessage.
    meter.begin()
    send = connection.send
    for part in meter.parts():
        for _ in range(part - 1):
            send(queue, value, persistent="true")
        last = {"receipt": "last"} if meter.messages + part == job["count"] else {}
        send(queue, value, persistent="true", **last)
        meter.add(part, part * size)
    if not received.wait(_PATIENCE):
        raise RuntimeError("no receipt")
    meter.end()
    connection.disconnect()


def activemq_consume(job: Job, meter: Meter) -> None:
    """Automatic acknowledgement, as in the paper."""
    import stomp

    connection, done = _stomp(job), threading.Event()

    class Reader(stomp.ConnectionListener):  # type: ignore[misc]  # stomp.py has no types
        def on_message(self, frame: Any) -> None:
            meter.add(1, len(frame.body))
            if meter.done:
                done.set()

    connection.set_listener("reader", Reader())
    meter.begin()
    headers = {"activemq.prefetchSize": str(PREFETCH)}
    connection.subscribe(f"/queue/{job['topic']}", id="1", ack="auto", headers=headers)
    _wait(done, meter)
    connection.disconnect()


def _stomp(job: Job) -> Any:
    import stomp

    host, port = job["stomp"].split(":")
    connection = stomp.Connection11([(host, int(port))])
    connection.connect(wait=True)
    return connection


def _wait(done: threading.Event, meter: Meter) -> None:
    """Wait while messages come, and a moment for any that are too many."""
    before = -1
    while not done.wait(_PATIENCE):
        if meter.messages == before:
            raise RuntimeError(f"no message since {before}")
        before = meter.messages
    threading.Event().wait(SURPLUS_SECONDS)


def rabbitmq_produce(job: Job, meter: Meter) -> None:
    """Persistent messages and confirms in a window, by pika's asynchronous connection: its blocking
    one waits for the confirm of each message."""
    import pika

    _Publisher(job, meter, pika.BasicProperties(delivery_mode=2)).run()


class Confirms:
    """Counts confirmed tags. RabbitMQ confirms single ones in any order, or all up to one."""

    def __init__(self) -> None:
        self._low = 0
        self._single: set[int] = set()

    @property
    def count(self) -> int:
        """How many tags are confirmed."""
        return self._low + len(self._single)

    def add(self, tag: int, multiple: bool) -> None:
        """``tag`` is confirmed, and with ``multiple`` all tags below it."""
        if multiple:
            self._low = max(self._low, tag)
            self._single = {each for each in self._single if each > self._low}
        else:
            self._single.add(tag)
        while self._low + 1 in self._single:
            self._low += 1
            self._single.remove(self._low)


class _Publisher:
    """Sends bursts of messages between the turns of pika's loop."""

    def __init__(self, job: Job, meter: Meter, properties: Any) -> None:
        import pika

        self._job, self._meter, self._properties = job, meter, properties
        self._value = b"x" * job["size"]
        self._sent = 0
        self._confirms = Confirms()
        self._error = ""
        self._connection = pika.SelectConnection(
            _pika_address(job), on_open_callback=self._opened, on_close_callback=self._closed
        )

    def run(self) -> None:
        self._connection.ioloop.start()
        if self._error:
            raise RuntimeError(self._error)

    def _opened(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._declare)

    def _closed(self, _connection: Any, reason: Any) -> None:
        if self._confirms.count < self._job["count"]:
            self._error = self._error or str(reason)
        self._connection.ioloop.stop()

    def _declare(self, channel: Any) -> None:
        self._channel = channel
        channel.queue_declare(**_queue(self._job), callback=self._declared)

    def _declared(self, _frame: Any) -> None:
        self._channel.confirm_delivery(self._confirm, callback=self._begin)

    def _begin(self, _frame: Any) -> None:
        self._meter.begin()
        self._burst()

    def _burst(self) -> None:
        count = self._job["count"]
        room = min(_BURST, count - self._sent, _WINDOW - self._sent + self._confirms.count)
        publish, queue = self._channel.basic_publish, self._job["topic"]
        for _ in range(room):
            publish("", queue, self._value, self._properties)
        self._sent += room
        self._meter.add(room, room * self._job["size"])
        if self._sent < count:
            # With a full window a millisecond's rest, else the next turn of the loop.
            self._connection.ioloop.call_later(0 if room else 0.001, self._burst)

    def _confirm(self, frame: Any) -> None:
        from pika.spec import Basic

        if not isinstance(frame.method, Basic.Ack):
            self._error = "RabbitMQ refused a message"
        self._confirms.add(frame.method.delivery_tag, frame.method.multiple)
        if self._error or self._confirms.count >= self._job["count"]:
            self._meter.end()
            self._connection.close()


def rabbitmq_consume(job: Job, meter: Meter) -> None:
    """Automatic acknowledgement, as in the paper."""
    import pika

    connection = pika.BlockingConnection(_pika_address(job))
    channel = connection.channel()

    def read(_channel: Any, _method: Any, _properties: Any, body: bytes) -> None:
        meter.add(1, len(body))
        if meter.done and meter.messages == meter.count:
            connection.call_later(SURPLUS_SECONDS, channel.stop_consuming)

    channel.queue_declare(**_queue(job))
    meter.begin()
    channel.basic_consume(job["topic"], read, auto_ack=True)
    channel.start_consuming()
    connection.close()


def _pika_address(job: Job) -> Any:
    import pika

    host, port = job["address"].split(":")
    return pika.ConnectionParameters(host, int(port))


def _queue(job: Job) -> dict[str, Any]:
    """The queue as the Java client declares it, too."""
    return {"queue": job["topic"], "durable": True, "arguments": {"x-queue-mode": "lazy"}}
