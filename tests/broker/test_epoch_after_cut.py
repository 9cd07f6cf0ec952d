"""A cut never lets a leader epoch be used twice."""

from pathlib import Path

from tallymark.client.producing.producer import Producer
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.testing.broker_thread import BrokerThread


def send(broker: BrokerThread, *values: bytes) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for value in values:
            producer.send("clicks", value).result(20)


def epoch_of_leader(broker: BrokerThread) -> int:
    with SimpleConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.end_offsets("clicks")  # learns the metadata
        return consumer.leader_epoch("clicks", 0)


def test_a_power_failure_that_takes_a_whole_epoch(tmp_path: Path) -> None:
    """A broker led in epoch 1 and lost all that it wrote in it. Its next start took "one more than
    the newest epoch in the log", which was 1 again: a reader of the lost records asked where its
    epoch 1 ends, was told the end of the new one, and never learnt that the log had been cut."""
    broker = BrokerThread(tmp_path)
    with broker:
        send(broker, b"old")
        broker.stop()
        (log,) = (tmp_path).rglob("clicks-0/*.log")
        size = log.stat().st_size
        broker.start()
        lost_epoch = epoch_of_leader(broker)
        send(broker, b"lost")
        broker.kill()
        with log.open("r+b") as file:
            file.truncate(size)
        broker.start()
        assert epoch_of_leader(broker) > lost_epoch
