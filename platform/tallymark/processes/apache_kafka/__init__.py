"""Apache Kafka itself as a process: what runs our stack on other people's brokers.

:mod:`.jars` fetches its jars from Maven's central repository, once; :mod:`.properties` writes its
settings; :mod:`.server` starts one broker in KRaft mode (no ZooKeeper) and ends it,
:mod:`.cluster` several that are one cluster.
"""

from tallymark.processes.apache_kafka.cluster import ApacheKafkaCluster
from tallymark.processes.apache_kafka.jars import VERSION, NotAvailableError
from tallymark.processes.apache_kafka.server import ApacheKafkaServer

__all__ = ["VERSION", "ApacheKafkaCluster", "ApacheKafkaServer", "NotAvailableError"]
