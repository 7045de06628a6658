"""The first inputs of each kind that `make fuzz` plays: the same ones each time."""

from __future__ import annotations

import pytest
from fuzz.kinds import KINDS
from fuzz.law import play, prepared

INPUTS = 60
LENIENT = ("logs",)
"""Of these any line is read, and what is not understood is counted."""


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_read_or_refused_in_a_sentence(kind: str) -> None:
    with prepared(kind) as of:
        outcomes = [play(kind, number, of) for number in range(INPUTS)]
    assert [outcome for outcome in outcomes if outcome.fault] == []
    # Else they would be none of what is looked for, or not be read at all.
    refused = sum(outcome.refused for outcome in outcomes)
    assert (0 if kind in LENIENT else 1) <= refused < INPUTS
