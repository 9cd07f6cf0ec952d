"""A publisher to be killed: sends numbered messages, writes down each that was acknowledged.

publisher.py BOOTSTRAP TOPIC RUN ACKED_FILE: until SIGTERM, then flushes and ends.
"""

import signal
import sys
import threading
import time
from pathlib import Path

from tallymark import Producer
from tallymark.client.producing.delivery import RecordMetadata


def main() -> None:
    bootstrap, topic, run, acked_file = sys.argv[1:]
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    # Unbuffered: what is written here has left the process, a kill does not take it back.
    with (
        Path(acked_file).open("ab", buffering=0) as acked,
        Producer(bootstrap_servers=bootstrap, client_id=f"publisher-{run}") as producer,
    ):
        number = 0
        while not stopped.is_set():
            value = f"{run}:{number}".encode()

            def settled(
                error: Exception | None, _: RecordMetadata | None, value: bytes = value
            ) -> None:
                if error is None:
                    acked.write(value + b"\n")

            producer.send(topic, value, on_delivery=settled)
            number += 1
            time.sleep(0.005)


if __name__ == "__main__":
    main()
