"""What was reckoned last is not reckoned again, and nothing else is taken for it."""

from __future__ import annotations

from tui.memoize import memoize_last


def test_memoize_last_recomputes_unless_arguments_are_the_same_objects_as_last() -> None:
    reckoned: list[tuple[list[int], str]] = []

    @memoize_last
    def work(numbers: list[int], words: str) -> str:
        reckoned.append((numbers, words))
        return f"{sum(numbers)} {words}"

    original, equal, other = [1, 2], [1, 2], [3]
    for numbers, words, answer, times in (
        (original, "a", "3 a", 1),
        (original, "a", "3 a", 1),
        (original, "b", "3 b", 2),
        (equal, "b", "3 b", 3),
        (other, "b", "3 b", 4),
        (original, "a", "3 a", 5),
    ):
        assert work(numbers, words) == answer
        assert len(reckoned) == times
