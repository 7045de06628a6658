"""Names picked by expressions, and those that were nearly typed."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.patterns import matching, named, pattern

TOPICS = ["orders", "orders-eu", "payments"]


def test_an_expression_matches_whole_names() -> None:
    assert matching("orders", "--topics", TOPICS, "topic") == ["orders"]
    assert matching("orders.*", "--topics", TOPICS, "topic") == ["orders", "orders-eu"]


def test_dot_also_matches_newlines_in_a_name() -> None:
    assert matching("or.*", "The id", ["or\nders", "payments"], "group") == ["or\nders"]


@pytest.mark.parametrize(
    ("text", "title", "next"),
    [
        ("(", "--topics ( is not a regular expression", "Fix"),
        ("ordes", "No topic matches ordes.", "Did you mean orders"),
        ("x+", "No topic matches x+.", "whole name"),
    ],
)
def test_invalid_or_unmatched_pattern_is_reported_with_advice(
    text: str, title: str, next: str
) -> None:
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
def test_pattern_that_does_not_compile_is_refused_with_one_clear_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not a regular expression"):
        pattern(text, "--topics")


def test_pattern_that_causes_a_python_warning_is_accepted() -> None:
    assert pattern("[[a]", "--topics").fullmatch("[")
