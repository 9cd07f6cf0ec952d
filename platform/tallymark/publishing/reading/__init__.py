"""From bytes to rows: a row is a time and named values.

Read ``rows`` first, it has the types. ``inputs`` and ``follow`` read bytes of a file, a pipe or a
file that grows; ``lines`` cuts them into bounded lines and refuses what is no text. ``json_lines``,
``csv_rows``, ``access_log`` and ``host_metrics`` each make rows of one format; ``detect`` finds out
which format an input has, and ``sources`` puts all of it together.
"""
