"""`trimtab groups`: a line each, one in full, and what may not be looked at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clusters import tp
from in_process import Hand
from run_help import MB, Faulty, cluster

from core.cli.common.output import print_lines, say, write_text
from core.cluster.groups import GROUPS_HIDDEN, Group
from core.cluster.kafka_errors import Fault
from core.cluster.simulation.spec import GroupSpec


@pytest.fixture
def hand(hand: Hand) -> Hand:
    """Type where two groups read orders, nobody reads payments any more, and its group lags."""
    return hand.on(
        cluster(
            {"orders": [(1, 2), (2, 3)], "payments": [(1, 3)]},
            in_bytes_per_s=1.0 * MB,
            groups=(
                GroupSpec("readers", ("orders",), members=3),
                GroupSpec("left", ("payments",), members=0),
            ),
        )
    )


def test_each_group_is_listed_on_one_line(hand: Hand) -> None:
    hand.cluster.advance(10)
    code, out, _ = hand("groups")
    assert code == 0
    left, readers = out.splitlines()[1:]
    assert left.split()[:5] == ["left", "empty", "classic", "-", "0"]
    assert "3 (1 idle)" in readers


def test_two_samples_show_which_group_never_catches_up(hand: Hand) -> None:
    groups = hand.json("groups", "--over", "10s")
    left, readers = groups
    assert (left["produced_per_s"], left["read_per_s"], left["never"]) == (1000, 0, True)
    assert (readers["read_per_s"], readers["never"]) == (2000, False)
    assert readers["catch_up_seconds"] == 0, "it keeps up"
    (idle,) = (m["client_id"] for m in readers["members"] if m["idle"])
    assert idle == "readers-2"
    assert "never, at this rate" in hand("groups", "left", "--over", "10s")[1]


def test_partition_that_never_catches_up_is_not_masked_by_other_partitions(hand: Hand) -> None:
    through = Faulty(hand.cluster)

    def poisoned(real: Any, *words: Any) -> tuple[Group, ...]:
        return tuple(replace(g, committed=g.committed | {tp("orders-0"): 0}) for g in real(*words))

    hand.cluster.advance(10)
    through.replaced["describe_groups"] = poisoned
    (group,) = hand.on(hand.cluster, through).json("groups", "readers", "--over", "10s")
    assert (group["never"], group["catch_up_seconds"]) == (True, None)
    assert [p["never"] for p in group["partitions"]] == [True, False]
    listed, full = (hand("groups", *words, "--over", "10s")[1] for words in ([], ["readers"]))
    assert "never: 1 of 2 partitions" in listed
    assert "caught up: never: 1 of 2 partitions" in full
    assert "never, at this rate" in full


def test_groups_that_match_the_pattern_are_described_in_full(hand: Hand) -> None:
    code, out, _ = hand("groups", "read.*")
    assert code == 0
    assert "readers  stable  classic protocol, roundrobin" in out
    assert "left" not in out
    assert "orders-1   readers-1" in out
    assert out.count("idle") == 2


def test_members_with_the_same_client_id_are_distinguished(hand: Hand) -> None:
    through = Faulty(hand.cluster)

    def alike(real: Any, *words: Any) -> tuple[Group, ...]:
        return tuple(
            replace(group, members=tuple(replace(m, client_id="app") for m in group.members))
            for group in real(*words)
        )

    through.replaced["describe_groups"] = alike
    _, out, _ = hand.on(hand.cluster, through)("groups", "readers")
    (document,) = hand.json("groups", "readers")
    reader = {f"{p['topic']}-{p['partition']}": p["member"] for p in document["partitions"]}
    rows = [line.split() for line in out.splitlines() if line.startswith("orders-")]
    assert {row[0]: row[1] for row in rows} == reader


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("(",), "is not a regular expression"),
        (("reader",), "No group matches reader.\nDid you mean readers?"),
        (("readers", "--over", "soon"), "soon"),
        (("--over", "0s"), "--over 0s cannot show a rate.\nGive a longer time, like --over 10s."),
    ],
)
def test_invalid_groups_arguments_are_refused(
    hand: Hand, words: tuple[str, ...], message: str
) -> None:
    code, _, err = hand("groups", *words)
    assert (code, message in err) == (2, True), err


def test_group_deleted_while_it_is_shown_is_reported(hand: Hand) -> None:
    through = Faulty(hand.cluster)
    looks: list[int] = []

    def vanishing(real: Any, *words: Any) -> tuple[Group, ...]:
        looks.append(1)
        return tuple(g for g in real(*words) if len(looks) == 1 or g.id != "left")

    through.replaced["describe_groups"] = vanishing
    code, out, err = hand.on(hand.cluster, through)("groups", "--over", "1s")
    assert (code, err) == (0, "Group left has been deleted meanwhile.\n")
    assert "readers" in out
    assert hand("groups", "left", "--over", "1s")[0] == 2
    looks.clear()
    code, out, err = hand("groups", "left", "--over", "1s")
    assert (code, out) == (0, "")
    assert err.endswith("No group that left matches is there any more.\n")


@pytest.mark.parametrize(
    ("fault", "gone"), [(GROUPS_HIDDEN, True), (Fault("COORDINATOR_LOAD_IN_PROGRESS"), False)]
)
def test_vanished_group_is_reported_deleted_unless_its_broker_failed_to_list_groups(
    hand: Hand, fault: Fault, gone: bool
) -> None:
    """Groups that one never sees are none of those that were there; not all is known, though."""
    through, looks = Faulty(hand.cluster), list[int]()

    def listed(real: Any, matching: str | None, lost: Any) -> tuple[Group, ...]:
        looks.append(1)
        lost(fault)
        return tuple(g for g in real(matching) if len(looks) == 1 or g.id != "left")

    through.replaced["describe_groups"] = listed
    code, _, err = hand.on(hand.cluster, through)("groups", "--over", "1s")
    assert code == 5
    assert ("Group left has been deleted meanwhile." in err) is gone


def test_broker_that_fails_to_list_its_groups_is_reported(hand: Hand) -> None:
    through = Faulty(hand.cluster)

    def listed(real: Any, matching: str | None, lost: Any) -> tuple[Group, ...]:
        lost(Fault("COORDINATOR_LOAD_IN_PROGRESS"))
        return tuple(group for group in real(matching) if group.id != "left")

    through.replaced["describe_groups"] = listed
    code, out, err = hand.on(hand.cluster, through)("groups")
    assert code == 5
    assert "readers" in out
    assert err == (
        "A broker does not list its groups, which are missing here: COORDINATOR_LOAD_IN_PROGRESS\n"
    )
    code, out, err = hand("groups", "left")
    assert (code, out) == (5, ""), "it may be there"
    assert "There is no group that others list." in err


def test_unauthorized_group_hides_no_other_group(hand: Hand) -> None:
    through = Faulty(hand.cluster)
    no = Fault("GROUP_AUTHORIZATION_FAILED")

    def partly(real: Any, *words: Any) -> tuple[Group, ...]:
        left, readers = real(*words)
        hidden = Group("hidden", "unknown", "", None, (), {}, fault=no)
        return hidden, replace(left, committed={}, committed_fault=no), readers

    through.replaced["describe_groups"] = partly
    groups = hand.on(hand.cluster, through).json("groups")
    assert [g["unknown"] for g in groups] == ["GROUP_AUTHORIZATION_FAILED", None, None]
    assert groups[1]["committed_unknown"] == "GROUP_AUTHORIZATION_FAILED"
    _, out, _ = hand("groups")
    assert "may not be looked at: GROUP_AUTHORIZATION_FAILED" in out
    assert "its offsets are not known" in out


def test_control_characters_in_group_ids_are_replaced_except_in_json(hand: Hand) -> None:
    """Kafka lets a group, and the members of it, be called anything."""
    name = "a\x1b[31mb\tc\r\x9bd"
    odd = cluster({"orders": [(1, 2)]}, groups=(GroupSpec(name, ("orders",), members=2),))
    listed = hand.on(odd)("groups")
    full = hand("groups", "a.*", "--over", "1s")
    for code, out, _ in (listed, full):
        assert code == 0
        assert "a\ufffd[31mb c\ufffd\ufffdd" in out
        assert not [c for c in out if c != "\n" and not c.isprintable()]
    assert hand.json("groups")[0]["id"] == name


def test_control_characters_are_replaced_in_messages_and_printed_output(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    say("Group a\x1b[2Jb is gone.")
    print_lines("and\x1b[2Jb")
    write_text("a\x1b[2Jb\nc\td\n", None)
    write_text("a\x1b[2Jb\n", tmp_path / "kept")
    out, err = capsys.readouterr()
    assert err == "Group a\ufffd[2Jb is gone.\n"
    assert out == "and\ufffd[2Jb\na\ufffd[2Jb\nc d\n"
    assert (tmp_path / "kept").read_text() == "a\x1b[2Jb\n"


def test_group_id_with_newline_forges_no_line_and_long_id_hides_no_column(
    hand: Hand, tmp_path: Path
) -> None:
    """Kafka lets a group be called anything, of any length."""
    forged, long = "a\nreaders  stable", "x" * 10_000
    there = cluster(
        {"orders": [(1, 2)]},
        groups=tuple(GroupSpec(id, ("orders",)) for id in (forged, long)),
    )
    _, listed, _ = hand.on(there)("groups")
    assert len(listed.splitlines()) == 3
    assert max(map(len, listed.splitlines())) < 200
    _, description, _ = hand("groups", "a.*")
    assert description.splitlines()[0].startswith("a\N{REPLACEMENT CHARACTER}readers  stable  ")
    hand("groups", "-o", str(tmp_path / "all"))
    assert long in (tmp_path / "all").read_text()
