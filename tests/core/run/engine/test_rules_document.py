"""docs/run-states.md says what the code does, rule by rule."""

from __future__ import annotations

from pathlib import Path

from core.run.engine import rules_document as rulebook
from core.run.engine.next_step import RULES

DOCS = Path(__file__).resolve().parents[4] / "docs" / "run-states.md"


def test_the_document_is_what_the_code_makes_of_it() -> None:
    assert DOCS.read_text(encoding="utf-8") == rulebook.document(), "run: make docs"


def test_every_rule_says_when_it_holds_and_which_steps_it_takes() -> None:
    assert len(rulebook.rows()) == len(RULES)
    for name, when, chosen in rulebook.rows():
        assert when.endswith("."), name
        assert chosen, name
