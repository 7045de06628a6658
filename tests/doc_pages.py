"""The pages of the documentation, as a Markdown parser reads them: links, headings, commands."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
from markdown_it import MarkdownIt
from markdown_it.token import Token

from core.cli.main import root

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SHELL = ("", "sh")
"""Languages of the code blocks that hold commands; what commands print is `text`."""


@cache
def tokens(page: Path) -> tuple[Token, ...]:
    return tuple(MarkdownIt("gfm-like", {"linkify": False}).parse(page.read_text("utf-8")))


def links(page: Path) -> list[str]:
    """Return the targets of a page's links and pictures."""
    inline = (child for token in tokens(page) for child in token.children or ())
    targets = (token.attrGet("href") or token.attrGet("src") for token in inline)
    return [str(target) for target in targets if target]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return a page's headings as links name them: a second one of a name ends in -1."""
    seen: Counter[str] = Counter()
    slugs = []
    for before, token in zip(tokens(page), tokens(page)[1:], strict=False):
        if before.type != "heading_open":
            continue
        text = "".join(child.content for child in token.children or ())
        slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        slugs.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(slugs)


def blocks(page: Path, language: str) -> list[str]:
    """Return a page's code blocks of one language."""
    return [
        token.content for token in tokens(page) if token.type == "fence" and token.info == language
    ]


def command_lines(page: Path) -> Iterator[list[str]]:
    """Yield the words behind `trimtab` in each command of ours, in code blocks and in sentences."""
    spans = (child for token in tokens(page) for child in token.children or ())
    sentences = [span.content for span in spans if span.type == "code_inline"]
    for block in (*sentences, *(block for language in SHELL for block in blocks(page, language))):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.removeprefix("$ ").strip()
            if line.startswith("-b … "):
                line = f"trimtab {line}"
            if line.split(" ")[0].rpartition("/")[2] == "trimtab":
                words = shlex.split(line, comments=True)
                end = next((n for n, word in enumerate(words) if word in ("&", "|", ">")), None)
                yield words[1:end]


def check_command_line(words: list[str]) -> None:
    """Raise click.UsageError where the command line has no such command, option or argument.

    A `…` stands for options before the command, and an argument in brackets may be left out.
    """
    command: click.Command = root
    context = click.Context(root, info_name="trimtab", **root.context_settings)
    rest = [word for word in words if word != "…" and word[:1] != "["]
    if words[:2] == ["-b", "…"]:
        rest = rest[1:]
    while True:
        values, rest, _ = command.make_parser(context).parse_args(rest)
        for option in command.params:
            value = values.get(option.name or "")
            if isinstance(option.type, click.Choice) and isinstance(value, str):
                option.type.convert(value, option, context)
        if not isinstance(command, click.Group) or not rest:
            break
        _, subcommand, rest = command.resolve_command(context, rest)
        assert subcommand is not None
        command, context = subcommand, click.Context(subcommand, parent=context)
    if isinstance(command, click.Group) and not command.invoke_without_command:
        raise click.UsageError(f"{' '.join(words)}: a command of it is missing")
