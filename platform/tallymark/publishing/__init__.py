"""``tallymark publish``: real input becomes Avro events on a topic.

An event passes these modules, in this order::

    reading/     bytes of a file, a pipe or a growing file become lines, lines become rows
    schemas/     the schema of the rows, where none is given; each row as a value of it
    publisher    the loop: encode, send, count; refused rows go to ``rejects``
    cluster      the cluster, the topic and the producer

Everything but ``cluster`` works without a broker.
"""
