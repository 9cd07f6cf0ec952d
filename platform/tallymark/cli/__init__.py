"""The command line. ``main`` gathers the commands; every part adds its own by entry point."""
