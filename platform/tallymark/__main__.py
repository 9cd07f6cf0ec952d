"""``python -m tallymark`` is the ``tallymark`` command."""

from tallymark.cli.main import main

if __name__ == "__main__":
    main()
