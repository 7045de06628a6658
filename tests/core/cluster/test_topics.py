"""How well topics are."""

from __future__ import annotations

from clusters import cluster

from core.cluster.topics import TopicHealth, topic_health


def test_what_is_wrong_with_a_topic_is_counted() -> None:
    state = cluster(
        {"t-0": [1, 2, 3], "t-1": [1, 2], "t-2": [2, 1], "u-0": [1]},
        leaders={"t-2": -1},
        isr={"t-0": [1, 2], "t-1": [1], "t-2": []},
        adding={"t-0": [3]},
    )
    assert topic_health(state, ["u", "t"]) == (
        TopicHealth("u", None, 1, (1,), under_replicated=0, offline=0, moving=0),
        TopicHealth("t", None, 3, (2,), under_replicated=2, offline=1, moving=1),
    )
