"""The pages of the documentation lead somewhere: links, headings, files, commands and options."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import man_page
import pytest
import rights_page
from commands_page import commands
from doc_pages import PAGES, ROOT, anchors, check_command_line, command_lines, links

from core.cli.main import root

NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
INDEX = ROOT / "docs" / "README.md"


def target_of(page: Path, link: str) -> Path:
    path = link.partition("#")[0]
    return (page.parent / path).resolve() if path else page


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_link_leads_to_a_page_and_its_heading(page: Path) -> None:
    for link in links(page):
        if "://" in link:
            continue
        target, heading = target_of(page, link), link.partition("#")[2]
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


def test_the_index_leads_to_every_page() -> None:
    listed = {target_of(INDEX, link) for link in links(INDEX)}
    assert {page for page in PAGES if INDEX.parent in page.parents} - listed == {INDEX}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_command_in_the_documentation_exists(page: Path) -> None:
    if page.name == "CHANGELOG.md":  # commands of earlier versions are in it
        return
    for words in command_lines(page):
        check_command_line(words)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_file_named_in_the_documentation_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:core|tui|tests|themes)/[\w/.-]+)`", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_rights_page_matches_the_table_that_it_is_generated_from() -> None:
    page = (ROOT / "docs" / "rights.md").read_text(encoding="utf-8")
    assert page == rights_page.document(), "run: make docs"


def test_manual_page_matches_the_help_and_formats_without_warnings() -> None:
    place = ROOT / "docs" / "reference" / "trimtab.1"
    assert place.read_text(encoding="utf-8") == man_page.page(), "run: make docs"
    groff = shutil.which("groff")
    if groff is not None:
        words = [groff, "-z", "-ww", "-Tutf8", "-man", str(place)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stderr == ""


def test_every_command_and_option_is_in_the_command_reference() -> None:
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
