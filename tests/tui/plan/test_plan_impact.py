"""Who notices a plan, on the Plan screen: a line below the moves, and all of it on a key."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import tp
from pictures import LOAD, SIZES, STATE, a_plan, a_session, body, dashboard, footer, pressed

from core.cluster.documents.cluster_document import DocumentGroup
from core.plan.impact.clients import Impact, estimate_impact
from core.plan.plan import Plan
from tui.drawing.spans import Tone, text_of
from tui.plan.drawing.impact import impact_line, impact_lines
from tui.session import Session

GROUPS = tuple(
    DocumentGroup(id, "stable", (), {tp("orders-0"): lag, tp("orders-2"): 99})
    for id, lag in (("billing", 1_000_000), ("search", 12))
)
SPARE = {t.name: replace(t, min_insync=1) for t in STATE.topics}
TIGHT = {t.name: replace(t, min_insync=3) for t in STATE.topics}


def found(**changes: object) -> Impact:
    load = replace(LOAD, messages_per_s=LOAD.in_bytes_per_s / 1000)
    return replace(estimate_impact(STATE.with_topics(SPARE), load, a_plan(), GROUPS), **changes)  # type: ignore[arg-type]


def session_with_groups() -> Session:
    session = a_session()
    session.state, session.groups = STATE.with_topics(SPARE), GROUPS
    return session


@pytest.mark.parametrize("size", SIZES)
async def test_impact_line_names_who_is_affected_and_a_key_shows_the_whole_impact(
    size: tuple[int, int],
) -> None:
    async with dashboard(session_with_groups(), "plan", size) as pilot:
        assert "hits  read by 2 groups" in body(pilot)
        assert "leaders change in 2 topics" in body(pilot)
        await pressed(pilot, "i")
        text = body(pilot)
        assert "3 partitions · 2 copied · 3 with another leader" in text
        assert "billing" in text
        assert "1,000,000" in text
        assert "then to read" in text
        assert " msgs" in text
        assert "orders" in text
        assert "i moves" in footer(pilot)
        await pressed(pilot, "i")
        assert "throttle" in body(pilot)


async def test_keys_scroll_the_impact_page_to_its_end_and_back() -> None:
    session = session_with_groups()
    session.groups = tuple(replace(GROUPS[0], id=f"group-{n:02}") for n in range(40))
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "i")
        assert "group-00" in body(pilot)
        assert "topics that are written to" not in body(pilot)
        await pressed(pilot, "G")
        assert "group-00" not in body(pilot)
        assert body(pilot).rstrip().split("\n")[-1].split()[0] == "clicks"
        await pressed(pilot, "g")
        assert "group-00" in body(pilot)


async def test_no_move_is_dropped_while_the_impact_page_hides_the_moves() -> None:
    session = session_with_groups()
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "i", "x")
        assert session.plan.moves == a_plan().moves
        await pressed(pilot, "i", "x")
        assert len(session.plan) == 2


async def test_an_empty_plan_has_no_impact() -> None:
    async with dashboard(a_session(Plan()), "plan") as pilot:
        await pressed(pilot, "i")
        assert "The plan is empty." in body(pilot)
        assert "i impact" not in footer(pilot)


# -- renderers -------------------------------------------------------------------------------------


def test_partitions_without_a_spare_replica_come_first_and_are_marked() -> None:
    tight = estimate_impact(STATE.with_topics(TIGHT), LOAD, a_plan(), GROUPS)
    line = impact_line(tight, 120)
    assert text_of(line).startswith("  hits  3 partitions with no replica to spare · read by")
    assert [span.tone for span in line if "spare" in span.text] == [Tone.LOOK]
    text = "\n".join(map(text_of, impact_lines(tight, 80)))
    assert "Restart no broker meanwhile" in " ".join(text.split())


def test_unknown_readers_are_not_reported_as_no_readers() -> None:
    text = "\n".join(map(text_of, impact_lines(found(groups=None), 80)))
    assert "Which consumer groups read them is not known." in text
    text = "\n".join(map(text_of, impact_lines(found(groups=()), 80)))
    assert "No consumer group reads them." in text
    unknown = found(groups=(), groups_unknown=("etl",))
    text = "\n".join(map(text_of, impact_lines(unknown, 80)))
    assert "What consumer group etl reads is not known." in text
    assert "No consumer group" not in text
    assert "who reads is not known" in text_of(impact_line(unknown, 120))
