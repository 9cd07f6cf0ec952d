"""``tallymark publish``: real input becomes Avro events on a topic.

The path of an event, one module a step::

    inputs, follow      bytes of a file, a pipe, or a file that grows
    lines               lines, bounded; what is no text is refused here
    json_lines, csv_rows, access_log, host_metrics    rows: a time and named values
    detect, sources     which of these it is
    sampling, shapes, inference                       the schema, where none is given
    fitting             a row against the schema: the value to encode, or why it does not fit
    publisher           the loop: encode, send, count; refused rows go to rejects
    cluster, progress   the topic and the producer; what a person sees meanwhile

Everything but ``cluster`` works without a broker.
"""
