"""``spark-submit .../jobs/stream_load.py --settings F``.

The same as ``tallymark stream-load``; Spark's master and resources are then spark-submit's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tallymark_spark_jobs.cli.shared import run_submitted
from tallymark_spark_jobs.cli.stream_load import stream_load


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    return run_submitted(stream_load, arguments)


if __name__ == "__main__":
    sys.exit(main())
