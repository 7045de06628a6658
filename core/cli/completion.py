"""`trimtab completion`: what a shell loads to complete commands and options."""

from __future__ import annotations

import click

from core.cli.common.options import Command
from core.cli.common.output import write_text

VARIABLE = "_TRIMTAB_COMPLETE"
"""By this the shell's script asks `trimtab` what may come next (click)."""
SHELLS = ("bash", "zsh", "fish")


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    Add eval "$(trimtab completion bash)" to ~/.bashrc, or eval "$(trimtab completion zsh)" to
    ~/.zshrc. For fish: trimtab completion fish > ~/.config/fish/completions/trimtab.fish.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # click has all three
    write_text(kind(context.find_root().command, {}, "trimtab", VARIABLE).source(), None)
