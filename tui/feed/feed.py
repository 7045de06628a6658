"""Feed: the threads that read cluster and load, and deliver events to the dashboard.

No Textual in here: reading begins before Textual is imported, and events wait until `attach`.
Threads share only messages; what they deliver is immutable.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from core.cluster.connect import connect
from core.errors import RIGHTS, AccessDeniedError, TrimtabError
from tui.feed.events import (
    ClusterLost,
    Connected,
    Deliver,
    Event,
    GroupsChanged,
    PictureChanged,
    Trouble,
)
from tui.feed.load import FeedLoad, Picture
from tui.feed.prefetch import Prefetch
from tui.feed.watchers import find_ground, watch_autopilot, watch_clients, watch_groups, watch_runs
from tui.session import PATIENCE_SECONDS, Freshness

if TYPE_CHECKING:
    from core.cli.common.context import Target
    from core.cluster.connect import Connection
    from core.cluster.state import ClusterState

RETRY_SECONDS = 2.0
PING_SECONDS = 1.0
"""How often a cluster that is described more seldom is asked whether it is still there."""
FIRST_CALLS_SECONDS = 30.0
"""For how long the first answers are waited for, of a cluster whose size is not known yet."""


class Feed:
    """Reads one target until `stop`; `attach` says where events go."""

    def __init__(
        self,
        target: Target,
        *,
        start_load: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = target
        self._monotonic = monotonic
        self._look: Prefetch | None = None
        self._start_load = start_load
        self._lock = threading.Condition()
        self._waiting: list[Event] = []
        self._deliver: Deliver | None = None
        self._stopped = threading.Event()
        self._painted = threading.Event()
        self._refresh_flag = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._state_known = threading.Event()
        self._connection: Connection | None = None
        self._picture = Picture()
        self._moves_unknown = False
        self._hidden_topics: int | None = 0
        self._load = FeedLoad(
            target, self._picture, lambda: self._connection, self._send, monotonic
        )

    # -- called by the dashboard -----------------------------------------------------------------

    def start(self, *, fork: bool = True) -> None:
        """Begin reading; without `fork` it may be called where there are threads already."""
        address = self._target.address
        if fork and address is not None and Prefetch.suits(address):
            self._look = Prefetch(address)
        self._thread(self._read_document if self._target.from_file else self._read_cluster)

    def attach(self, deliver: Deliver) -> None:
        """Deliver what was seen so far, and everything from now on, from the reading threads."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._deliver = deliver
        for event in waiting:
            deliver(event)

    def await_picture(self) -> bool:
        """Wait, before `attach`, until the cluster has been seen; False if it was stopped before.

        Raises what it was lost by instead.
        """

        def first() -> PictureChanged | ClusterLost | None:
            decisive = (
                event for event in self._waiting if isinstance(event, PictureChanged | ClusterLost)
            )
            return next(decisive, None)

        with self._lock:
            self._lock.wait_for(lambda: first() or self._stopped.is_set())
            first_event = first()
        if isinstance(first_event, ClusterLost):
            raise first_event.error
        return first_event is not None

    def painted(self) -> None:
        """Say that the map is on the screen: what costs imports may begin now."""
        if self._painted.is_set():
            return
        self._painted.set()
        if not gc.isenabled():
            # What is there now stays until the end: no collection need look at it again.
            gc.freeze()
            gc.enable()
        if not self._target.from_file:
            for work in (
                self._read_load,
                self._read_runs,
                self._read_groups,
                self._read_autopilot,
                self._find_drill_target,
                self._read_clients,
            ):
                self._thread(work, self._state_known)

    def refresh(self) -> None:
        """Ask the cluster at once."""
        self._refresh_flag.set()

    def pause(self, paused: bool) -> None:
        if paused:
            self._running.clear()
        else:
            self._running.set()
            self._refresh_flag.set()

    def stop(self) -> None:
        """Stop reading; threads end by themselves, none is waited for."""
        self._stopped.set()
        if (look := self._look) is not None:
            look.stop()
        self._painted.set()
        self._running.set()
        self._refresh_flag.set()
        self._state_known.set()
        self._load.close()
        with self._lock:
            self._lock.notify_all()

    # -- the threads -----------------------------------------------------------------------------

    def _thread(self, work: Callable[[], None], after: threading.Event | None = None) -> None:
        args = (work, after)
        threading.Thread(target=self._guard, args=args, name=work.__name__, daemon=True).start()

    def _guard(self, work: Callable[[], None], after: threading.Event | None = None) -> None:
        try:
            if after is not None:
                after.wait()
            work()
            return
        except TrimtabError as error:
            failure = error
        except Exception:  # noqa: BLE001 - a bug in a thread must reach the log and the user
            if self._stopped.is_set():
                return
            from core.bug_log import log_bug

            words = "This is a bug in trimtab: a part of the dashboard stopped."
            failure = TrimtabError(words, detail=log_bug())
        self._send(ClusterLost(failure) if self._picture.state is None else Trouble(failure))

    def _send(self, event: Event) -> None:
        with self._lock:
            if self._deliver is None:
                self._waiting.append(event)
                self._lock.notify_all()
                return
            deliver = self._deliver
        if not self._stopped.is_set():
            deliver(event)

    def _read_document(self) -> None:
        from core.cluster.documents.reader import read_document
        from core.load.load_source import document_load

        assert self._target.from_file is not None
        document = read_document(self._target.from_file)
        self._send(PictureChanged(document.state, document_load(document), None, None, None))
        self._report_access_gaps(document.state)
        if document.groups is not None:
            self._send(GroupsChanged(document.groups))

    def _read_cluster(self) -> None:
        """Poll the cluster by the observer's cadence; after a failure try again more slowly."""
        began = self._monotonic()
        first = self._await_forked_state()
        if first is not None:
            now = self._monotonic()
            self._take(first, Freshness(began, max(1.0, 10 * (now - began)), now, _max_wait(None)))
            # What follows imports much, and so does the way to the screen.
            self._painted.wait()
            if self._stopped.is_set():
                return
        from core.cluster.observer import Observer

        assert self._target.address is not None
        connection = self._connection = connect(self._target.address)
        self._send(Connected(connection))
        observer = Observer(connection.client, connection.clock, self._monotonic)
        if first is not None:
            observer.first_state(lambda: first)
            self._state_known.set()
        at_once = False
        try:
            while not self._stopped.is_set():
                self._running.wait()
                try:
                    if self._picture.state is None:
                        # Sizes and configs can wait until there is something to look at.
                        state = observer.first_state(connection.client.describe_cluster)
                    else:
                        self._painted.wait()
                        state = observer.poll(at_once=at_once)
                except TrimtabError as error:
                    self._send(ClusterLost(error))
                    wait = max(RETRY_SECONDS, observer.seconds_until_due())
                    at_once = self._wait(wait, observer.ping, lost=True)
                    continue
                wait = max(0.05, observer.seconds_until_due())
                due = self._monotonic() + min(wait, PING_SECONDS)
                patience = _max_wait(observer.slow_call_seconds(wait))
                every = observer.state_interval_seconds
                self._take(state, Freshness(observer.metadata_at, every, due, patience))
                self._state_known.set()
                at_once = self._wait(wait, observer.ping)
        finally:
            connection.client.close()

    def _take(self, state: ClusterState, age: Freshness) -> None:
        self._send(self._picture.take_state(state, age))
        self._report_access_gaps(state)

    def _report_access_gaps(self, state: ClusterState) -> None:
        if state.moves_unknown and not self._moves_unknown:
            title = f"What is in flight is not shown: {state.moves_unknown}"
            self._send(Trouble(AccessDeniedError(title, next=RIGHTS)))
        self._moves_unknown = bool(state.moves_unknown)
        hidden = state.hidden
        if hidden is None:  # nobody has looked yet
            return
        if not hidden.is_complete and self._hidden_topics != hidden.count:
            self._send(Trouble(TrimtabError(hidden.sentence, next=hidden.remedy)))
        self._hidden_topics = 0 if hidden.is_complete else hidden.count

    def _await_forked_state(self) -> ClusterState | None:
        """Return what the fork saw; None when there is none, or it ended without an answer."""
        if self._look is None:
            return None
        try:
            return self._look.result()
        finally:
            self._look = None

    def _read_load(self) -> None:
        if self._start_load:
            self._load.begin()
            if self._stopped.is_set():
                self._load.close()
        self._load.follow(self._running, self._stopped)

    def _read_runs(self) -> None:
        watch_runs(lambda: self._picture.state, self._send, self._stopped)

    def _read_groups(self) -> None:
        watch_groups(lambda: self._connection, self._send, self._running, self._stopped)

    def _read_clients(self) -> None:
        address = self._target.address
        state = self._picture.state
        if state is not None and address is not None and not address.is_simulated:
            watch_clients(state.cluster_id, self._send, self._stopped)

    def _read_autopilot(self) -> None:
        if self._target.address is not None:
            watch_autopilot(lambda: self._picture.state, self._send, self._stopped)

    def _find_drill_target(self) -> None:
        state = self._picture.state
        if state is not None and self._target.address is not None:
            find_ground(self._target.address, state.cluster_id, self._send, self._stopped)

    def _wait(self, seconds: float, ping: Callable[[], None], *, lost: bool = False) -> bool:
        """Wait; return whether to look at once: the user asks, or a lost cluster answers again.

        Meanwhile it is pinged: looks at a large cluster, or a slow one, are far apart.
        """
        until = self._monotonic() + seconds
        while (left := until - self._monotonic()) > 0:
            at_once = self._refresh_flag.wait(min(left, RETRY_SECONDS if lost else PING_SECONDS))
            self._refresh_flag.clear()
            if at_once or self._stopped.is_set():
                return at_once
            if until <= self._monotonic() or not self._running.is_set():
                continue
            try:
                ping()
            except TrimtabError as error:
                self._send(ClusterLost(error))
                lost = True
            else:
                if lost:
                    return True
        return False


def _max_wait(slow_call_seconds: float | None) -> float:
    """Return for how long a picture may be waited for, given how long its slow calls lasted."""
    if slow_call_seconds is None:
        return FIRST_CALLS_SECONDS
    slow = slow_call_seconds > PATIENCE_SECONDS
    return 2 * slow_call_seconds if slow else PATIENCE_SECONDS
