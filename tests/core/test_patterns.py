"""Names picked by expressions, and those that were nearly typed."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.patterns import matching, named, pattern

TOPICS = ["orders", "orders-eu", "payments"]


def test_an_expression_matches_whole_names() -> None:
    assert matching("orders", "--topics", TOPICS, "topic") == ["orders"]
    assert matching("orders.*", "--topics", TOPICS, "topic") == ["orders", "orders-eu"]


def test_a_dot_is_any_character_of_a_name_which_may_have_lines() -> None:
    assert matching("or.*", "The id", ["or\nders", "payments"], "group") == ["or\nders"]


@pytest.mark.parametrize(
    ("text", "title", "next"),
    [
        ("(", "--topics ( is not a regular expression", "Fix"),
        ("ordes", "No topic matches ordes.", "Did you mean orders"),
        ("x+", "No topic matches x+.", "whole name"),
    ],
)
def test_what_is_wrong_or_matches_nothing_is_said(text: str, title: str, next: str) -> None:
    with pytest.raises(UsageError) as caught:
        matching(text, "--topics", TOPICS, "topic")
    assert caught.value.title.startswith(title)
    assert next in caught.value.next


def test_a_name_that_nearly_matches_is_suggested() -> None:
    assert named("orders", TOPICS, "topic") == "orders"
    with pytest.raises(UsageError, match="There is no topic paymets") as caught:
        named("paymets", TOPICS, "topic")
    assert caught.value.next == "Did you mean payments?"


@pytest.mark.parametrize("text", ["a{99999999999}", "(" * 5000 + ")" * 5000, "(?P<a>", "["])
def test_what_no_engine_compiles_is_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="is not a regular expression"):
        pattern(text, "--topics")


def test_what_python_warns_its_programs_of_is_no_concern_of_a_user() -> None:
    assert pattern("[[a]", "--topics").fullmatch("[")
