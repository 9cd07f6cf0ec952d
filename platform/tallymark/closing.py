"""``with`` for what has a ``close()``: one way for every class that users close."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class ClosedByWith:
    """Closes at the end of a ``with`` block, however that ends."""

    def close(self) -> None:
        """Give up what is held. Twice does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self._close_after(error)

    def _close_after(self, error: BaseException) -> None:
        """Close when the block has raised ``error``; override it where that differs."""
        self.close()
