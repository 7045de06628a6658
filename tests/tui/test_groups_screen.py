"""The Groups screen: who reads what, how far behind, at every size, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from clusters import tp
from hands import rested
from maps import lines, text
from pictures import MB, SIZES, STATE, a_session, body, dashboard, footer, pressed, spot
from simulated import small_spec
from watch_help import at, damage

from core import paths
from core.cluster.client import ClusterClient
from core.cluster.connect import Address, Connection
from core.cluster.documents.cluster_document import DocumentGroup
from core.cluster.groups import Group, Member
from core.cluster.kafka_errors import Fault
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.spec import GroupSpec
from core.errors import AccessDeniedError, UnreachableError
from core.load.load import Load
from core.watch.groups.lag import GroupView, Pace, PartitionView, Rates
from core.watch.groups.rebalances import Rebalance
from core.watch.timeline.events import Kind
from core.watch.timeline.publisher import Publisher
from tui.drawing.page import Page
from tui.drawing.spans import text_of
from tui.groups.detail import pace_words, rate
from tui.groups.poller import merge_rebalances, read_rebalances
from tui.groups.view import Order, listed, members_of
from tui.session import Session


def view(id: str, lag: int | None, *members: Member) -> GroupView:
    group = Group(id, "stable", "range", 1, members, {})
    return GroupView(group, (PartitionView(tp("t-0"), None, None, None, saved_lag=lag),))


def test_groups_are_ordered_by_lag_with_the_unknown_last_or_by_name() -> None:
    groups = [view("c", 5), view("a", None), view("b", 0), view("d", 70)]
    ids = [g.group.id for g in listed(groups, "", Order.LAG)]
    assert ids == ["d", "c", "b", "a"]
    assert [g.group.id for g in listed(groups, "!d", Order.NAME)] == ["a", "b", "c"]
    assert [g.group.id for g in listed(groups, "b", Order.NAME, kept_id="d")] == ["b", "d"]


def test_members_are_sorted_by_the_number_in_their_client_id() -> None:
    members = [Member(f"id-{n}", f"app-{n}", "/h", ()) for n in (10, 9, 1)]
    assert [m.client_id for m in members_of(view("g", 0, *members))] == ["app-1", "app-9", "app-10"]


@pytest.mark.parametrize(
    ("lag", "rates", "pace", "words"),
    [
        (None, None, Pace.UNKNOWN, "-"),
        (0, None, Pace.NO_LAG, "√"),
        (50, None, Pace.UNKNOWN, "-"),
        (100, Rates(10, 12), Pace.KEEPS_UP, "√ keeps up"),
        (100, Rates(0, 12), Pace.FALLS_BEHIND, "▲ never, +12/s"),
        (1000, Rates(10, 12.5), Pace.FALLS_BEHIND, "▲ never, +2.5/s"),
        (1000, Rates(20, 10), Pace.CATCHES_UP, "in 100 s"),
        (6000, Rates(100, 99), Pace.STAYS, "61 s behind"),
        (6000, Rates(0, 0), Pace.NOT_READ, "▲ nothing is read"),
    ],
)
def test_whether_a_lag_goes_away_is_shown(
    lag: int | None, rates: Rates | None, pace: Pace, words: str
) -> None:
    of = PartitionView(tp("t-0"), "m", None, None, rates, saved_lag=lag)
    assert of.pace is pace
    assert text_of(pace_words(of)) == words


def test_pace_of_a_group_is_that_of_its_worst_partition() -> None:
    group = Group("g", "stable", "range", 1, (), {})

    def words(*partitions: tuple[int, int, Rates]) -> str:
        group_view = GroupView(
            group,
            tuple(
                PartitionView(tp(f"t-{n}"), "m", None, None, rates, still, lag)
                for n, (lag, still, rates) in enumerate(partitions)
            ),
        )
        return text_of(pace_words(group_view))

    well = (5_000, 0, Rates(1000, 1000))
    assert words(*[well] * 11, (10_000, 1_000, Rates(0, 1000))) == "▲ never: 1 of 12"
    assert words(*[well] * 11, (70, 70, Rates(0, 0))) == "▲ never: 1 of 12"
    assert words(*[well] * 11, (2, 0, Rates(0, 0.1))) == "√ keeps up", "not committed yet"
    assert words(well, (30_000, 1_000, Rates(2000, 1000))) == "in 30 s"
    assert words(well, (60_000, 20_000, Rates(1000, 1000))) == "60 s behind"
    assert words((70, 70, Rates(0, 0)), (7, 7, Rates(0, 0))) == "▲ nothing is read"


# -- on the screen -------------------------------------------------------------------------------


def a_cluster() -> SimulatedCluster:
    """Three members read t, a fourth is idle; one group sleeps."""
    spec = small_spec(
        {"t": [(1, 2)] * 3, "u": [(2, 3)] * 2, "v": [(1, 3)] * 2},
        brokers=(1, 2, 3),
        size_bytes=20 * MB,
        in_bytes_per_s=10_000,
        groups=(
            GroupSpec("readers", ("t",), 4),
            GroupSpec("asleep", ("t", "u"), 0, 100.0),
            GroupSpec("other", ("v",), 1),
        ),
    )
    return SimulatedCluster(spec, seed=1)


def on(client: ClusterClient, clock: Any) -> Session:
    session = a_session()
    session.address = Address("b1:9092")
    session.connection = Connection(client, clock, session.address)
    return session


def of(simulated: SimulatedCluster) -> Session:
    return on(simulated, simulated.clock)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ascii_only", [False, True])
async def test_groups_members_and_assignment_matrix_fit_the_screen_at_each_size(
    size: tuple[int, int], *, ascii_only: bool
) -> None:
    simulated = a_cluster()
    async with dashboard(of(simulated), "groups", size, ascii_only=ascii_only) as pilot:
        await pressed(pilot, "s", "j", "j")
        shown = body(pilot)
        assert all(len(line) <= size[0] for line in shown.split("\n"))
        for words in ("3 groups", "4, 1 idle", "readers-3", "10.0.", "idle", "t-2"):
            assert words in shown, words
        mark, none = ("*", ".") if ascii_only else ("●", "·")
        _, y = spot(pilot, "a b c d")
        matrix = lines(pilot)[y + 2 : y + 5]
        for n, line in enumerate(matrix):
            cells = " ".join(mark if n == m else none for m in range(4))
            assert f"t-{n}" in line
            assert cells in line, shown
        if ascii_only:
            assert text(pilot).isascii()


async def test_member_column_keeps_its_heading_where_client_ids_are_short(
    changing: Changing,
) -> None:
    (other_group,) = (group for group in changing.found if group.id == "other")  # type: ignore[union-attr]
    changing.found = [
        replace(other_group, members=(replace(other_group.members[0], client_id="c"),))
    ]
    async with dashboard(on(changing, changing.clock), "groups") as pilot:
        assert "member  host" in body(pilot)


async def test_rates_are_shown_once_time_has_passed_between_polls() -> None:
    simulated = a_cluster()
    async with dashboard(of(simulated), "groups") as pilot:
        assert "rates in some seconds" in body(pilot)
        simulated.clock.sleep(20)
        await pressed(pilot, "r")
        assert "rates over 20 s" in body(pilot)
        assert "▲ never, +" in next(line for line in body(pilot).split("\n") if "asleep" in line)
        assert "1 falls behind" in body(pilot)


async def test_the_partitions_of_a_group_can_be_walked_through() -> None:
    async with dashboard(of(a_cluster()), "groups", (80, 24)) as pilot:
        await pressed(pilot, "enter", "j", "j", "j")
        assert "▸ u-0" in body(pilot)
        assert "readers" not in body(pilot)
        assert "all groups" in footer(pilot)
        await pressed(pilot, "G")
        assert "▸ u-1" in body(pilot)
        await pressed(pilot, "escape")
        assert "readers" in body(pilot)


async def test_enter_opens_no_group_where_the_filter_finds_none() -> None:
    async with dashboard(of(a_cluster()), "groups", (80, 24)) as pilot:
        await pressed(pilot, "slash", *"zzz", "enter", "enter")
        assert "all groups" not in footer(pilot)
        assert "partitions" not in footer(pilot)
        await pressed(pilot, "escape")
        assert "readers" in body(pilot)


async def test_the_cursor_stays_on_its_group_whatever_the_order() -> None:
    async with dashboard(of(a_cluster()), "groups") as pilot:
        await pressed(pilot, "s", "j")
        assert "▸ other" in body(pilot)
        await pressed(pilot, "s")
        assert "▸ other" in body(pilot)
        await pressed(pilot, "/", "r", "e", "a", "d", "enter")
        assert "1 of 3" in body(pilot)
        assert "▸ readers" in body(pilot)
        await pressed(pilot, "escape")
        assert "asleep" in body(pilot)


async def test_a_click_chooses_a_group_and_a_partition() -> None:
    async with dashboard(of(a_cluster()), "groups") as pilot:
        await pilot.click(Page, offset=spot(pilot, "other"))
        await rested(pilot)
        assert "▸ other" in body(pilot)
        await pilot.click(Page, offset=spot(pilot, "v-1"))
        await rested(pilot)
        assert "▸ v-1" in body(pilot)


class Changing:
    """A cluster whose groups are what a test says."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._simulated = simulated
        self.found: Sequence[Group] | Exception = simulated.describe_groups()
        self.looks = 0
        self.lost: tuple[Fault, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._simulated, name)

    def describe_groups(
        self, matching: str | None = None, lost: Callable[[Fault], None] | None = None
    ) -> tuple[Group, ...]:
        self.looks += 1
        for fault in self.lost if lost is not None else ():
            lost(fault)
        if isinstance(self.found, Exception):
            raise self.found
        return tuple(self.found)


@pytest.fixture
def changing() -> Changing:
    return Changing(a_cluster())


async def test_vanished_group_is_reported_and_removed_once_the_cursor_leaves_it(
    changing: Changing,
) -> None:
    there = tuple(changing.found)  # type: ignore[arg-type]
    async with dashboard(on(changing, changing.clock), "groups") as pilot:
        await pressed(pilot, "s", "j")
        changing.found = [group for group in there if group.id != "other"]
        await pressed(pilot, "r")
        assert "It is gone" in body(pilot)
        assert "gone" in next(line for line in body(pilot).split("\n") if "▸ other" in line)
        await pressed(pilot, "j")
        assert "other" not in body(pilot)
        changing.found = []
        await pressed(pilot, "r", "r", "k")
        assert "It is gone" in body(pilot)


async def test_denied_access_to_groups_is_reported_and_the_map_still_works(
    changing: Changing,
) -> None:
    changing.found = AccessDeniedError("The cluster says no: GROUP_AUTHORIZATION_FAILED.")
    async with dashboard(on(changing, changing.clock), "groups") as pilot:
        assert "GROUP_AUTHORIZATION_FAILED" in body(pilot)
        await pressed(pilot, "1")
        assert "orders" in pilot.app.screen.query_one("#map").text  # type: ignore[attr-defined]


async def test_groups_stay_shown_when_the_cluster_is_lost(changing: Changing) -> None:
    async with dashboard(on(changing, changing.clock), "groups") as pilot:
        changing.found = UnreachableError("Nothing answers at b1:9092.")
        await pressed(pilot, "r")
        assert "▲ Nothing answers at b1:9092." in body(pilot)
        assert "readers" in body(pilot)


async def test_everything_unknown_about_groups_is_reported(
    changing: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any) -> Any:
        raise AccessDeniedError("The cluster says no: TOPIC.")

    monkeypatch.setattr(changing, "fetch_offsets", denied, raising=False)
    changing.lost = (Fault("COORDINATOR_LOAD_IN_PROGRESS"),)
    async with dashboard(on(changing, changing.clock), "groups") as pilot:
        warning_lines = [line for line in body(pilot).split("\n") if "▲" in line][:2]
        assert "A broker does not list its groups" in warning_lines[0]
        assert "The ends of logs are not known, and no lag: The cluster says no" in warning_lines[1]
        assert "readers" in body(pilot)
        changing.lost = (*changing.lost, Fault("BROKER_NOT_AVAILABLE"))
        await pressed(pilot, "r")
        assert "2 brokers do not list their groups" in body(pilot)
        assert "COORDINATOR_LOAD_IN_PROGRESS; BROKER_NOT_AVAILABLE" in body(pilot)


async def test_authorization_fault_of_one_group_is_reported_and_hides_no_other_group(
    changing: Changing,
) -> None:
    group, *rest = tuple(changing.found)  # type: ignore[arg-type]
    denied = Fault("GROUP_AUTHORIZATION_FAILED")
    changing.found = [Group("locked", "unknown", "", None, (), {}, fault=denied), group, *rest]
    async with dashboard(on(changing, changing.clock), "groups") as pilot:
        await pressed(pilot, "s", "j")
        assert "It may not be looked at: GROUP_AUTHORIZATION_FAILED" in body(pilot)
        assert "readers" in body(pilot)
        changing.found = [replace(group, committed={}, committed_fault=denied), *rest]
        await pressed(pilot, "r", "g")
        assert "What it has committed is not known: GROUP_AUTHORIZATION_FAILED" in body(pilot)


async def test_groups_are_not_polled_while_another_screen_is_open(changing: Changing) -> None:
    async with dashboard(on(changing, changing.clock), "map") as pilot:
        assert changing.looks == 0
        await pressed(pilot, "6", "1")
        looks = changing.looks
        assert looks > 0
        await pressed(pilot, "r", "2", "r")
        assert changing.looks == looks


async def test_rebalance_and_partitions_without_a_reader_are_reported(changing: Changing) -> None:
    (readers_group,) = (group for group in changing.found if group.id == "readers")  # type: ignore[union-attr]
    left = replace(readers_group, state="preparing_rebalancing", members=readers_group.members[1:])
    nobody = tuple(replace(member, assignment=()) for member in readers_group.members)
    changing.found = [left]
    async with dashboard(on(changing, changing.clock), "groups") as pilot:
        assert "1 not stable" in body(pilot)
        assert "rebalancing" in body(pilot)
        assert "1 of 3 partitions are read by nobody now" in body(pilot)
        assert "nobody reads it" in body(pilot)
        changing.found = [replace(left, members=nobody)]
        await pressed(pilot, "r")
        assert "idle" not in body(pilot), "while it rebalances"


async def test_rebalances_are_listed_as_they_are_observed_above_recorded_ones(
    changing: Changing,
) -> None:
    there = tuple(changing.found)  # type: ignore[arg-type]
    now = changing.clock.now()
    with Publisher(STATE.cluster_id) as teller:
        for group, seconds in (("readers", 60), ("other", 30), ("readers", -60)):
            at = now - timedelta(seconds=seconds)
            teller.report(Kind.GROUP, by=f"group {group}", text=f"was seen {seconds}", at=at)
    async with dashboard(on(changing, changing.clock), "groups") as pilot:
        await pressed(pilot, "s", "j", "j")
        assert "was seen 60" in body(pilot)
        assert "was seen 30" not in body(pilot)
        assert "was seen -60" not in body(pilot)
        changing.found = [
            replace(g, members=g.members[:2]) if g.id == "readers" else g for g in there
        ]
        await pressed(pilot, "r")
        _, newest = spot(pilot, "rebalanced: 2 members, 1+1")
        _, before = spot(pilot, "was seen 60")
        assert newest < before
        await pilot.resize_terminal(80, 24)
        await rested(pilot)
        assert "rebalanced: 2 members" in body(pilot)
        # While another screen is open nobody looks here: what is recorded then is not told twice.
        await pressed(pilot, "1", "6")
        assert "was seen 60" in body(pilot)
        assert "rebalanced" not in body(pilot)


def test_rebalances_that_were_not_recorded_are_taken_from_observation() -> None:
    with Publisher("c") as teller:
        teller.report(Kind.GROUP, by="group readers", text="recorded", at=at(2))
    seen = (Rebalance(at(1), "left-out", "seen"), Rebalance(at(2), "readers", "seen, too"))
    rebalances = merge_rebalances("c", at(3), seen)
    assert [(rebalance.group, rebalance.text) for rebalance in rebalances] == [
        ("left-out", "seen"),
        ("readers", "recorded"),
    ]


def test_damaged_timeline_yields_no_rebalances() -> None:
    with Publisher("c") as teller:
        teller.report(Kind.GROUP, by="group readers", text="rebalanced", at=at(0))
    assert [rebalance.text for rebalance in read_rebalances("c", at(1))] == ["rebalanced"]
    damage(paths.timeline_file("c"))
    assert read_rebalances("c", at(1)) == ()


async def test_absence_of_any_group_is_reported(changing: Changing) -> None:
    changing.found = []
    async with dashboard(on(changing, changing.clock), "groups") as pilot:
        assert "There is no consumer group." in body(pilot)
        await pressed(pilot, "enter", "j", "s", "escape", "y")


async def test_groups_of_a_saved_document_are_shown() -> None:
    session = a_session()
    session.address = None
    member = Member("m-1", "app-1", "/10.0.0.1", (tp("orders-0"),))
    session.groups = (DocumentGroup("app", "stable", (member,), {tp("orders-0"): 1234}),)
    async with dashboard(session, "groups") as pilot:
        assert "1,234" in body(pilot)
        assert "app-1" in body(pilot)


@pytest.mark.parametrize(
    ("groups", "words"),
    [(None, "knows nothing of consumer groups"), ((), "There was no consumer group")],
)
async def test_absence_of_groups_in_a_saved_document_is_reported(
    groups: tuple[DocumentGroup, ...] | None, words: str
) -> None:
    session = a_session()
    session.address, session.groups = None, groups
    async with dashboard(session, "groups") as pilot:
        assert words in body(pilot)


# -- on the map ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_topics_and_partitions_read_by_a_group_are_marked_on_the_map_until_esc(
    *, ascii_only: bool
) -> None:
    simulated = a_cluster()
    session = of(simulated)
    session.state = simulated.describe_cluster()
    session.load = Load.unknown(session.state)
    mark = "#" if ascii_only else "◆"

    def marked() -> list[str]:
        """Return the names of the rows that are marked, from the top."""
        rows = [line[1:].split() for line in lines(pilot)[3:] if line[1:2] == mark]
        return [row[0][1:] for row in rows]

    async with dashboard(session, "groups", ascii_only=ascii_only) as pilot:
        await pressed(pilot, "s", "j", "m")
        assert marked() == ["v"]
        assert f"{mark}other" in text(pilot)
        await pressed(pilot, "enter")
        assert marked() == ["p0", "p1"]
        await pressed(pilot, "escape")
        assert marked() == ["v"]
        await pressed(pilot, "escape")
        assert marked() == []
        assert session.highlight is None


@pytest.mark.parametrize(
    ("per_s", "expected"),
    [(0, "0"), (0.25, "0.2"), (12.5, "12"), (999_999, "999,999"), (4_856_742, "4.86M")],
)
def test_rates_are_formatted_to_fit_their_column(per_s: float, expected: str) -> None:
    assert rate(per_s) == expected
