"""``spark-submit .../jobs/reconcile.py --settings F --from ISO --to ISO``.

The same as ``tallymark reconcile``; Spark's master and resources are then spark-submit's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from tallymark.errors import TallymarkError
from tallymark_spark_jobs.cli import reconcile


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    try:
        reconcile.main(
            args=None if arguments is None else list(arguments),
            prog_name="reconcile",
            standalone_mode=False,
        )
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    except TallymarkError as error:
        click.echo(f"reconcile: {error}", err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
