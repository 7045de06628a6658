"""Who notices a plan: groups and their lag, producers, what must not fail, retention to shrink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from clusters import MB, cluster, load_of, plan_of, tp

from core.cluster.documents.cluster_document import DocumentGroup
from core.cluster.groups import Member
from core.cluster.metadata import Topic
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.impact.clients import (
    Impact,
    estimate_impact,
    find_precautions,
    groups_sentence,
    headroom_sentences,
    impact_summary,
)
from core.plan.impact.retention import (
    HOUR,
    SEGMENT_BYTES,
    RetentionSavings,
    TopicSavings,
    check_retention,
    retention_command,
    retention_hint,
    retention_sentences,
)
from core.plan.plan import Move, Plan

GB = 1000 * MB
LAYOUT = {"t-0": [1, 2], "t-1": [2, 3], "u-0": [3, 1]}
KEPT = {"retention_ms": 72 * HOUR * 1000, "cleanup_policy": "delete", "remote_storage": False}
T = Topic("t", min_insync=1, **KEPT)


def group(id: str, lag: Mapping[str, int | None], *, given: Sequence[str] = ()) -> DocumentGroup:
    members = (Member("m", "c", "h", tuple(map(tp, given))),) if given else ()
    return DocumentGroup(id, "stable", members, {tp(name): n for name, n in lag.items()})


def load(state: ClusterState, rates: Mapping[str, float], message_bytes: float = 1000.0) -> Load:
    base_load = load_of(state, rates)
    return replace(base_load, messages_per_s=base_load.in_bytes_per_s / message_bytes)


def found(
    targets: Mapping[str, tuple[int, ...]],
    groups: Sequence[DocumentGroup] | None = (),
    *,
    rates: Mapping[str, float] | None = None,
    retention: int | None = None,
    **more: Any,
) -> Impact:
    state = cluster(LAYOUT, **{"brokers": range(1, 5), **more})
    known = load(state, rates or dict.fromkeys(LAYOUT, 100_000.0))
    return estimate_impact(state, known, plan_of(state, targets), groups, retention)


# -- groups and producers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "more", "new_leaders", "copied", "catch_up"),
    [
        ((4, 2), {}, 1, 1, 500),  # the leader's replica leaves: 5 s at 100 messages/s
        ((1, 4), {}, 0, 1, 100),  # its epoch rises: 1 s
        ((2, 1), {}, 1, 0, 500),  # only another preferred leader
        ((4, 2), {"leaders": {"t-0": -1}}, 0, 1, 100),  # nobody leads: nobody is interrupted
        ((1, 4), {"leaders": {"t-0": 2}}, 1, 1, 500),  # who leads, against the order, leaves
    ],
)
def test_group_is_interrupted_by_a_new_leader_and_briefly_by_the_end_of_a_copy(
    target: tuple[int, ...], more: Any, new_leaders: int, copied: int, catch_up: int
) -> None:
    seen = found({"t-0": target}, [group("g", {"t-0": 250, "t-1": 9})], **more)
    assert (seen.moves, seen.leader_changes, seen.copied) == (1, new_leaders, copied)
    (g,) = seen.groups or ()
    assert (g.partitions, g.leader_changes, g.copied) == ((tp("t-0"),), new_leaders, copied)
    assert (g.lag, g.behind_seconds) == (250, pytest.approx(2.5))
    assert (g.catch_up_messages, g.catch_up_bytes) == (catch_up, catch_up * 1000)


def test_move_between_log_dirs_is_copied_and_interrupts_no_group() -> None:
    move = Move(tp("t-0"), (1, 2), (1, 2), None, ("/b", "any"), ("/a", "any"))
    state = cluster({"t-0": [1, 2]}, topics=[T], size_bytes=20 * GB)
    seen = estimate_impact(
        state, load(state, {"t-0": 1e5}), Plan.of([move]), [group("g", {"t-0": 0})]
    )
    assert (seen.leader_changes, seen.copied) == (0, 1)
    (g,) = seen.groups or ()
    assert (g.copied, g.catch_up_messages) == (1, 0)
    assert seen.shrinking is not None
    assert seen.shrinking.max_bytes == 20 * GB - HOUR * 100_000


def test_groups_are_listed_worst_first_without_those_that_read_no_moved_partition() -> None:
    groups = [
        group("elsewhere", {"u-0": 5}),
        group("follower-moves", {"t-1": 9000}),
        group("new-leader", {"t-0": 1}),
        group("has-not-committed", {}, given=["t-0"]),
    ]
    seen = found({"t-0": (4, 2), "t-1": (2, 4)}, groups)
    assert [g.id for g in seen.groups or ()] == [
        "has-not-committed",
        "new-leader",
        "follower-moves",
    ]
    assert [g.lag for g in seen.groups or ()] == [None, 1, 9000]


@pytest.mark.parametrize("lag", [{}, {"t-0": None}], ids=["not committed", "end not told"])
def test_unknown_lag_of_a_group_is_not_taken_for_zero(lag: dict[str, int | None]) -> None:
    read = [group("g", lag, given=["t-0"])]
    seen = found({"t-0": (4, 2)}, read, topics=[T], size_bytes=20 * GB)
    (g,) = seen.groups or ()
    assert (g.lag, g.behind_seconds) == (None, None)
    assert seen.shrinking is not None
    assert [reader.group for reader in seen.shrinking.unsure] == ["g"]
    assert not seen.shrinking.is_advised


def test_unknown_rates_and_groups_are_reported_as_none() -> None:
    seen = found({"t-0": (4, 2)}, [group("g", {"t-0": 250})], rates={"t-0": float("nan")})
    (g,) = seen.groups or ()
    assert (g.behind_seconds, g.catch_up_messages, g.catch_up_bytes) == (None, None, None)
    assert [(t.topic, t.in_bytes_per_s) for t in seen.topics] == [("t", None)]
    assert found({"t-0": (4, 2)}, None).groups is None


def test_producer_topics_are_only_those_with_a_produce_rate() -> None:
    rates = {"t-0": 2e6, "t-1": 1e6, "u-0": 0.0}
    seen = found({"t-0": (4, 2), "t-1": (2, 4), "u-0": (2, 3)}, rates=rates)
    (topic,) = seen.topics
    assert (topic.topic, topic.in_bytes_per_s) == ("t", 3e6)
    assert (topic.leader_changes, topic.copied) == (1, 2)


def test_moves_of_partitions_that_no_longer_exist_are_not_counted() -> None:
    state, plan = cluster({"u-0": [1, 2]}), Plan.of([Move(tp("t-0"), (1, 2), (1, 3))])
    assert estimate_impact(state, load_of(state), plan, ()).moves == 0


# -- min.insync.replicas ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "isr", "min_insync", "spare"),
    [
        ((4, 2), [1, 2], 1, None),
        ((4, 2), [1], 1, (0, 1)),  # one has fallen out: the new one counts at the end only
        ((4, 2), [1, 2], 2, (0, 0)),
        ((4,), [1, 2], 1, (1, 0)),  # fewer replicas leave nothing to spare at the end
        ((1, 2, 4), [1, 2], 2, (0, 1)),
    ],
)
def test_partitions_without_a_spare_in_sync_replica_are_reported_with_their_headroom(
    target: tuple[int, ...], isr: list[int], min_insync: int, spare: tuple[int, int] | None
) -> None:
    topic = Topic("t", min_insync=min_insync)
    seen = found({"t-0": target}, isr={"t-0": isr}, topics=[topic])
    assert [(h.during, h.after) for h in seen.headroom] == ([] if spare is None else [spare])
    assert seen.headroom_unknown == 0
    assert bool(headroom_sentences(seen.headroom)) is (spare is not None)


def test_replica_being_removed_by_another_reassignment_does_not_count_as_spare() -> None:
    state = cluster(
        {"t-0": [3, 1, 2]},
        isr={"t-0": [3, 2]},
        adding={"t-0": [1]},
        removing={"t-0": [2]},
        topics=[Topic("t", min_insync=2)],
    )
    plan = Plan.of([Move(tp("t-0"), (3, 1), (1, 2))])
    (headroom,) = estimate_impact(state, load_of(state), plan, ()).headroom
    assert (headroom.in_sync, headroom.during, headroom.after) == ((3, 1), 0, 0)


def test_partitions_of_unknown_headroom_are_counted() -> None:
    seen = found({"t-0": (4, 2), "u-0": (4, 1)}, topics=[T])
    assert (seen.headroom, seen.headroom_unknown) == ((), 1)


# -- retention -------------------------------------------------------------------------------------


def shrunk(
    groups: Sequence[DocumentGroup] | None = (), retention: int | None = None, **more: Any
) -> RetentionSavings | None:
    """Return the advice for t-0 of 20 GB, at 100 messages of 1 kB a second, with 2 new replicas."""
    return found(
        {"t-0": (3, 4)},
        groups,
        retention=retention,
        **{"topics": [T], "size_bytes": 20 * GB, **more},
    ).shrinking


def test_shorter_retention_saves_the_older_bytes_for_each_new_replica() -> None:
    advice = shrunk()
    assert advice is not None
    assert (advice.seconds, advice.is_advised) == (HOUR, True)
    most = 2 * (20 * GB - HOUR * 100_000)
    assert (advice.max_bytes, advice.min_bytes) == (most, most - 2 * SEGMENT_BYTES)
    (sentence, _) = retention_sentences(advice)
    assert "t 39 GB" in sentence
    assert "deleted for good" in sentence
    assert retention_command(advice, "p.json") == "trimtab apply p.json --retention 1h"


@pytest.mark.parametrize(
    ("lag", "retention", "seconds", "losing"),
    [
        (100, None, HOUR, False),
        (100 * HOUR, None, 2 * HOUR, False),  # an hour behind: twice as much is kept
        (100 * HOUR, 30 * 60, 30 * 60, True),
        (100 * 11 * HOUR, None, 24 * HOUR, False),
    ],
)
def test_retention_advice_keeps_unconsumed_records_or_names_the_losing_groups(
    lag: int, retention: int | None, seconds: int, losing: bool
) -> None:
    # Retention is the topic's: unread records of partitions that do not move would go, too.
    advice = shrunk([group("slow", {"t-1": lag})], retention)
    assert advice is not None
    assert advice.seconds == seconds
    assert [r.group for r in advice.losing] == (["slow"] if losing else [])
    assert advice.is_advised is not losing
    assert any("slow (1 h 00 m behind on t)" in s for s in retention_sentences(advice)) is (losing)


@pytest.mark.parametrize(
    ("groups", "more", "words"),
    [
        (None, {}, "Which groups have yet to read it is not known"),
        (
            [group("odd", {"t-1": 5})],
            {"rates": {"t-0": 1e5, "t-1": 0.0}},
            "How far odd got is not known",
        ),
    ],
)
def test_shorter_retention_is_not_advised_where_the_progress_of_readers_is_unknown(
    groups: Any, more: Any, words: str
) -> None:
    advice = shrunk(groups, **more)
    assert advice is not None
    assert not advice.is_advised
    text = " ".join(retention_sentences(advice))
    assert words in text
    assert retention_command(advice, "p.json") == ""


def test_shrinking_a_topic_that_keeps_everything_is_reported_and_not_advised() -> None:
    forever = Topic("u", min_insync=1, retention_ms=-1, cleanup_policy="delete")
    advice = found(
        {"t-0": (3, 4), "u-0": (2, 4)}, topics=[T, forever], size_bytes=20 * GB
    ).shrinking
    assert advice is not None
    assert (advice.forever, advice.is_advised) == (("u",), False)
    assert "u too, meant to keep everything" in " ".join(retention_sentences(advice))


@pytest.mark.parametrize("kind", ["forever", "remote"])
def test_every_topic_that_would_lose_records_for_good_is_named(kind: str) -> None:
    advice = shrunk()
    assert advice is not None
    text = " ".join(retention_sentences(replace(advice, **{kind: tuple("vwxyz")})))
    assert "v, w, x, y and z" in text


@pytest.mark.parametrize(
    ("remote", "words"),
    [
        (True, "t kept in remote storage would be deleted there too"),
        (None, "Whether t is kept in remote storage"),
    ],
)
def test_shorter_retention_is_not_advised_where_remote_storage_is_or_may_be_used(
    remote: bool | None, words: str
) -> None:
    advice = shrunk(topics=[replace(T, remote_storage=remote)])
    assert advice is not None
    assert not advice.is_advised
    assert words in " ".join(retention_sentences(advice))
    assert retention_command(advice, "p.json") == ""
    assert retention_hint(advice, advice.max_bytes, is_requested=False) == ""


@pytest.mark.parametrize(
    ("topic", "groups", "against"),
    [
        (T, (), []),
        (T, [group("slow", {"t-1": 100})], []),
        (T, [group("slow", {"t-1": 100 * 2 * HOUR})], ["unread"]),
        (T, [group("odd", {"t-1": None})], ["unread"]),
        (T, None, ["unread"]),
        (T, [replace(group("work", {}), unknown=True)], ["unread"]),
        (replace(T, remote_storage=True), (), ["remote-storage"]),
        (replace(T, remote_storage=None), (), ["remote-storage"]),
        (Topic("t"), (), ["remote-storage"]),
        (replace(T, remote_storage=True, retention_ms=HOUR * 1000), None, []),
        (replace(T, cleanup_policy="compact"), None, []),
    ],
)
def test_retention_check_reports_records_that_groups_or_remote_storage_may_lose(
    topic: Topic, groups: Sequence[DocumentGroup] | None, against: list[str]
) -> None:
    state = cluster({"t-0": (1, 2), "t-1": (1, 2)}, brokers=range(1, 5), topics=[topic])
    plan = Plan.of([Move(tp("t-0"), (1, 2), (3, 2))])
    rates = load(state, {"t-0": 1e5, "t-1": 1e5})
    findings = check_retention(state, rates, plan, groups, HOUR * 1000)
    assert [finding.id for finding in findings] == against


def test_share_and_streams_groups_are_known_but_the_partitions_they_read_are_not() -> None:
    share = [
        replace(group(id, {}), unknown=True, type=type)
        for id, type in (("work-queue", "share"), ("wordcount", "streams"))
    ]
    seen = found({"t-0": (3, 4)}, share[:1], topics=[T], size_bytes=20 * GB)
    assert seen.types_unknown == {"work-queue": "share"}
    assert groups_sentence(seen) == "Who reads is not known for 1 share group (work-queue)."
    assert impact_summary(seen)[-1] == "who reads is not known for 1 share group"
    assert seen.shrinking is not None
    assert not seen.shrinking.is_advised
    both = found({"t-0": (3, 4)}, share, topics=[T])
    assert impact_summary(both)[-1].endswith("for 1 share group and 1 streams group")


SAVES = RetentionSavings(HOUR, (TopicSavings("t", 86_400_000, 0, 20 * MB),))


@pytest.mark.parametrize(
    ("shrinking", "total_bytes", "is_requested", "expected"),
    [
        (SAVES, 40 * MB, False, "With a retention of 1h, up to 20 MB of 40 MB would not have"),
        (SAVES, 40 * MB, True, "With that, up to 20 MB of 40 MB do not have to be copied."),
        (SAVES, 10 * MB, True, "With that, up to 10 MB of 10 MB do not have to be copied."),
        (SAVES, 400 * MB, False, ""),
        (SAVES, 400 * MB, True, "With that, up to 20 MB of 400 MB do not have to be copied."),
        (SAVES, 0, True, ""),
        (None, 40 * MB, True, ""),
    ],
)
def test_savings_of_a_shorter_retention_are_hinted_before_a_run_where_worth_it(
    shrinking: RetentionSavings | None, total_bytes: int, is_requested: bool, expected: str
) -> None:
    hint = retention_hint(shrinking, total_bytes, is_requested=is_requested)
    assert hint.startswith(expected)
    assert bool(hint) is bool(expected)


@pytest.mark.parametrize(
    "topic",
    [
        replace(T, cleanup_policy="compact"),
        replace(T, cleanup_policy=None),
        replace(T, retention_ms=None),
        replace(T, retention_ms=HOUR * 1000),
    ],
)
def test_no_retention_advice_is_given_where_no_log_would_get_shorter(topic: Topic) -> None:
    assert shrunk(topics=[topic]) is None
    assert shrunk(size_bytes=MB) is None
    assert found({"t-0": (2, 1)}, topics=[T], size_bytes=20 * GB).shrinking is None


# -- in short --------------------------------------------------------------------------------------


def test_impact_summary_lists_the_worst_first_in_a_few_words() -> None:
    topics = [replace(T, min_insync=2)]
    seen = found({"t-0": (3, 4)}, [group("g", {"t-0": 1})], topics=topics, size_bytes=20 * GB)
    assert impact_summary(seen) == [
        "1 partition with no replica to spare",
        "read by 1 group",
        "leaders change in 1 topic",
        "retention 1h saves up to 39 GB",
    ]
    assert impact_summary(found({"u-0": (3, 4)}, rates={"u-0": 0.0})) == []


STATE = cluster(
    {"t-0": [0, 1], "t-1": [0, 1], "t-2": [1, 0], "t-3": [0, 1]}, leaders={"t-2": -1, "t-3": 1}
)
LEAVE = "Until it ends, delete none of these topics and add no partitions to them."
ONE = "Producers that do not retry may fail as 1 leader changes."
BY_ELECTION = "1 leader changes by an election only: --elect, or trimtab elect when it has ended."
TWO = "Producers that do not retry may fail as 2 leaders change."


@pytest.mark.parametrize(
    ("targets", "elects", "expected"),
    [
        ({"t-0": (0, 2)}, False, [LEAVE]),
        ({"t-0": (2, 1)}, False, [LEAVE, ONE]),
        ({"t-0": (2, 1), "t-1": (2, 3)}, False, [LEAVE, TWO]),
        ({"t-0": (2, 0)}, False, [LEAVE, BY_ELECTION]),
        ({"t-0": (2, 0)}, True, [LEAVE, ONE]),
        ({"t-0": (1, 0)}, False, [BY_ELECTION]),
        ({"t-0": (1, 0)}, True, [ONE]),
        ({"t-0": (1,)}, False, [ONE]),
        ({"t-2": (2, 0)}, False, [LEAVE]),
        ({"t-3": (0, 1, 2)}, False, [LEAVE]),
        ({"t-3": (0, 1, 2), "t-0": (1, 0)}, False, [LEAVE, BY_ELECTION]),
        ({"t-3": (0, 1, 2), "t-0": (1, 0)}, True, [LEAVE, TWO]),
    ],
    ids=[
        "the leader stays",
        "the leader leaves",
        "two leave",
        "another is preferred",
        "another is preferred and elected",
        "a re-order leaves its leader alone",
        "a re-order with an election",
        "the leader's replica goes",
        "nobody leads that could change",
        "another than the preferred one leads already",
        "one of them as before, one by an election",
        "both by an election",
    ],
)
def test_precautions_match_the_leader_changes_and_elections_of_a_plan(
    targets: dict[str, tuple[int, ...]], elects: bool, expected: list[str]
) -> None:
    assert list(find_precautions(STATE, plan_of(STATE, targets), elects=elects)) == expected


def test_no_precautions_are_given_for_partitions_that_no_longer_exist() -> None:
    plan = Plan.of([Move(tp("u-0"), (0, 1), (1, 0))])
    assert find_precautions(STATE, plan, elects=True) == find_precautions(STATE, plan) == ()
