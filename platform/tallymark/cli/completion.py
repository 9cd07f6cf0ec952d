"""``tallymark completion``: the script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_TALLYMARK_COMPLETE"
"""By this variable the script asks ``tallymark`` itself what fits (click's own protocol)."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL. Put it where the shell looks:

    \b
    bash  tallymark completion bash > ~/.local/share/bash-completion/completions/tallymark
    zsh   tallymark completion zsh > ~/.zfunc/_tallymark    (and: fpath+=~/.zfunc)
    fish  tallymark completion fish > ~/.config/fish/completions/tallymark.fish
    """
    from tallymark.cli.main import command as root

    found = get_completion_class(shell)
    assert found is not None, "click completes bash, zsh and fish"
    click.echo(found(root, {}, "tallymark", VARIABLE).source())
