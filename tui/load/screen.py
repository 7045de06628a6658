"""The Load screen: rates of a broker or partition over time, from the published windows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.load.load_paths import is_address, root_of
from core.load.snapshot.format import LoadSnapshot
from tui.actions.action import LOAD
from tui.actions.table import bindings_of
from tui.drawing.page import Page
from tui.drawing.spans import Lines, RowHit
from tui.load.page import Choice, LoadView, Metric, choice_named, load_lines
from tui.load.statistics import Numbers, broker_numbers, partition_numbers
from tui.past.screen import PastScreen
from tui.screen.list_screen import CursorKeys, PageScreen
from tui.session import Session, age_words

if TYPE_CHECKING:
    from core.load.windows import LoadHistory

HOURS = (1, 6, 24)
HOTTEST = 50


class LoadScreen(CursorKeys, PastScreen, PageScreen):
    """A chart of one broker, or of one of its hottest partitions."""

    PLACE = LOAD
    BINDINGS = bindings_of(LOAD)

    def __init__(self) -> None:
        super().__init__()
        self._of: int | TopicPartition | None = None
        self._broker: int | None = None
        """The broker whose partitions are listed; None lists brokers."""
        self._metric = Metric.BYTES
        self._hours = HOURS[1]
        self._requested: tuple[object, datetime] | None = None
        self._history: tuple[tuple[object, datetime], LoadHistory | None] | None = None

    def lines(self, session: Session, width: int, height: int) -> Lines:
        choices = self._choices(session)
        cursor = choice_named(choices, self._of) if self._of is not None else 0
        history: LoadHistory | None = None
        numbers: Numbers | None = None
        heading, nothing = "brokers", "No broker's load is known yet."
        if self._broker is not None:
            heading = f"hottest partitions led by broker {self._broker}"
            nothing = f"Broker {self._broker} leads no partition."
        if session.snapshot is not None and choices:
            self._of = choices[cursor].of
            history = self._request_history(session, session.snapshot, self._of)
            if isinstance(self._of, TopicPartition):
                numbers = partition_numbers(session.snapshot, self._of)
            elif history is not None:
                numbers = broker_numbers(history)
        view = LoadView(
            choices=choices,
            cursor=cursor,
            heading=heading,
            history=history,
            numbers=numbers,
            snapshot=session.snapshot,
            age=self._age(session),
            nothing=nothing,
            metric=self._metric,
            hours=self._hours,
            plain=self.palette.plain or self.dashboard.ascii_only,
            then=f"{self.then.at.astimezone(UTC):%-d %b %H:%M}Z" if self.then else "",
            in_store=is_address(session.snapshots or ""),
        )
        return load_lines(view, width, height)

    def footer_words(self) -> Mapping[str, str]:
        return {
            **self.past_words(),
            "left": "broker" if self._broker is None else "partition",
            "enter": "partitions" if self._broker is None else "brokers",
            "metric": f"metric: {self._metric.value}",
            "horizon": f"over {self._hours} h",
        }

    def _age(self, session: Session) -> str:
        if self.then is not None and session.snapshot is not None:
            return f"published {session.snapshot.published_at.astimezone(UTC):%H:%M:%S}Z"
        if session.load_age is None:
            return ""
        words = age_words(session.load_age.age(session.now))
        return words if words == "now" else f"{words} old"

    def _choices(self, session: Session) -> tuple[Choice, ...]:
        snapshot = session.snapshot
        if snapshot is None:
            return ()
        if self._broker is not None and self.then is not None and snapshot.leader is not None:
            return hottest_then(snapshot, self._broker)
        if self._broker is not None and session.state is not None and session.load is not None:
            return hottest_partitions(session.state, session.load, self._broker)
        racks = {b.id: b.rack for b in session.state.brokers} if session.state else {}
        return broker_choices(snapshot, racks)

    def _request_history(
        self, session: Session, snapshot: LoadSnapshot, of: int | TopicPartition
    ) -> LoadHistory | None:
        """Return the windows of `of`; reads them anew after each snapshot."""
        # By the snapshot's time, not this machine's: an old one has its chart too.
        until = max(snapshot.published_at, snapshot.window_end) + timedelta(minutes=1)
        if self.then is not None:  # a window that had only just begun is not of then
            until = snapshot.window_end - timedelta(minutes=1)
        shown = (of, self.then.at if self.then else None)
        key = (shown, until)
        if self._requested != key:
            self._requested = key
            cluster_id, place = snapshot.cluster_id, session.snapshots

            def work() -> LoadHistory:
                from core.load.windows import read_history

                return read_history(root_of(place), cluster_id, of, until)

            take = partial(self._take_history, key)
            self.run_in_thread("history", work, take, lambda error: take(None, error.title))
        # The windows before this snapshot are shown until the new ones are there, none of then.
        return self._history[1] if self._history and self._history[0][0] == shown else None

    def _take_history(
        self, key: tuple[object, datetime], history: LoadHistory | None, why: str = ""
    ) -> None:
        if why:
            self.say(why, "act")
        if key == self._requested:
            self._history = (key, history)
            self.show(self.session)

    def action_left(self) -> None:
        self.step(-1)

    def action_right(self) -> None:
        self.step(1)

    def step(self, rows: int) -> None:
        choices = self._choices(self.session)
        if choices:
            at = choice_named(choices, self._of) if self._of is not None else 0
            self._of = choices[min(max(at + rows, 0), len(choices) - 1)].of
            self.show(self.session)

    def action_metric(self) -> None:
        kinds = list(Metric)
        self._metric = kinds[(kinds.index(self._metric) + 1) % len(kinds)]
        self.show(self.session)

    def action_horizon(self) -> None:
        self._hours = HOURS[(HOURS.index(self._hours) + 1) % len(HOURS)]
        self.show(self.session)

    def action_enter(self) -> None:
        if self._broker is not None:
            self.action_back()
        elif isinstance(self._of, int):
            self._broker, self._of = self._of, None
            self.show(self.session)

    def action_back(self) -> None:
        if self._broker is not None:
            self._of, self._broker = self._broker, None
            self.show(self.session)
        elif self.then is not None:
            self.action_now()

    def on_page_hit(self, message: Page.Hit) -> None:
        if isinstance(message.hit, RowHit):
            self._of = self._choices(self.session)[message.hit.index].of
            if message.twice:
                self.action_enter()
            self.show(self.session)


def broker_choices(snapshot: LoadSnapshot, racks: Mapping[int, str | None]) -> tuple[Choice, ...]:
    """Return the brokers of a snapshot with their totals."""

    def known(value: float | None) -> float:
        return np.nan if value is None else float(value)

    return tuple(
        Choice(
            of=b.broker,
            name=f"broker {b.broker}",
            in_bytes_per_s=known(b.leader_in_bytes_per_s),
            out_bytes_per_s=known(b.out_bytes_per_s),
            size_bytes=known(b.size_bytes),
            notes=(
                f"{b.leaders:,} leaders",
                f"{b.replicas:,} replicas",
                *((f"rack {rack}",) if (rack := racks.get(b.broker)) else ()),
            ),
        )
        for b in snapshot.brokers
    )


def hottest_partitions(state: ClusterState, load: Load, broker: int) -> tuple[Choice, ...]:
    """Return the partitions that a broker leads, by what goes in and out, the most first."""
    rows = np.flatnonzero(state.leader == broker)
    total = np.nan_to_num(load.in_bytes_per_s[rows]) + np.nan_to_num(load.out_bytes_per_s[rows])
    return tuple(
        Choice(
            of=state.tp(row),
            name=str(state.tp(row)),
            in_bytes_per_s=float(load.in_bytes_per_s[row]),
            out_bytes_per_s=float(load.out_bytes_per_s[row]),
            size_bytes=float(size) if (size := state.partition_size_bytes[row]) >= 0 else np.nan,
            notes=("replicas " + " ".join(str(b) for b in state.replicas(row)),),
        )
        for row in rows[np.argsort(-total, kind="stable")][:HOTTEST].tolist()
    )


def hottest_then(snapshot: LoadSnapshot, broker: int) -> tuple[Choice, ...]:
    """Return the partitions that a broker led when a snapshot was made, as above."""
    assert snapshot.leader is not None
    rows = np.flatnonzero(snapshot.leader == broker)
    inward, outward = (snapshot.rate(rate)[rows] for rate in ("in_bytes_per_s", "out_bytes_per_s"))
    size = np.where(snapshot.size_bytes < 0, np.nan, snapshot.size_bytes)[rows]
    order = np.argsort(-(np.nan_to_num(inward) + np.nan_to_num(outward)), kind="stable")[:HOTTEST]
    choices = []
    for i in order.tolist():
        row = int(rows[i])
        tp = TopicPartition(
            snapshot.topics[int(snapshot.topic_of[row])], int(snapshot.partition[row])
        )
        choices.append(Choice(tp, str(tp), float(inward[i]), float(outward[i]), float(size[i])))
    return tuple(choices)
