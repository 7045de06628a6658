"""The pages of the documentation lead somewhere: links, headings, files, commands and options."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import rights_page
from commands_page import commands

from core.cli.main import root

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@cache
def headings(page: Path) -> frozenset[str]:
    """Return a page's headings as links name them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    found = re.findall(r"^#+ (.*)$", text, re.M)
    return frozenset(
        re.sub(r"[^\w\- ]", "", each.strip().lower()).replace(" ", "-") for each in found
    )


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_link_leads_to_a_page_and_its_heading(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not heading or heading in headings(target), link


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_file_that_is_named_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:core|tui|tests|themes)/[\w/.-]+)`", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_page_of_rights_is_that_of_the_table() -> None:
    page = (ROOT / "docs" / "rights.md").read_text(encoding="utf-8")
    assert page == rights_page.document(), "run: make docs"


def test_every_command_and_option_is_on_its_page() -> None:
    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    for name, context in commands(root):
        section = re.search(
            rf"^## {re.escape(name)}(?: [^a-z\n].*)?$.*?(?=^## |\Z)", text, re.M | re.S
        )
        assert section, name
        options = (o for o in context.command.params if not getattr(o, "hidden", False))
        for option in options:
            if option.param_type_name == "option":
                assert option.opts[-1] in section.group(), f"{name} {option.opts}: make docs"
