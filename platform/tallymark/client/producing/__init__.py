"""Publishing: from ``send`` to the acknowledgement."""
