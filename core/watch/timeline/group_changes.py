"""Watches consumer groups for the recorder, and publishes rebalances to the timeline."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from core.clock import Clock, SystemClock, sleep_until
from core.cluster.client import ClusterClient
from core.cluster.groups import ActiveGroups
from core.errors import AccessDeniedError, TrimtabError
from core.watch.groups.rebalances import Rebalance, WatchedGroups, start_watching
from core.watch.timeline.event_sources import RECORDER, AccessNotice
from core.watch.timeline.events import Event, Kind, Note
from core.watch.timeline.publisher import Publisher

log = logging.getLogger("trimtab.record")

MAX_GROUPS = 200
"""So many groups with members are watched; each costs its coordinator a request a look."""
POLL_SECONDS, COST = 1.0, 10.0
"""A look a second while it takes a tenth of that, else at ten times its duration."""
RETRY_SECONDS, DENIED_SECONDS = 2.0, 60.0
"""After a look that failed, and after one that may not be had."""
END_SECONDS = 5.0


class GroupEvents:
    """Watches the groups of one cluster; for one thread."""

    def __init__(self, client: ClusterClient, clock: Clock, publisher: Publisher) -> None:
        self._client, self._clock, self._publisher = client, clock, publisher
        self._watched: WatchedGroups | None = None
        self._left_out = 0
        self._other_groups: frozenset[tuple[str, str]] | None = None
        self._access = AccessNotice(Kind.GROUP, "consumer groups")

    def look(self) -> list[Event]:
        """Look once, tell what has happened since the last look, and return it; at first nothing.

        Raises UnreachableError or AccessDeniedError.
        """
        try:
            listing = self._client.describe_active_groups(MAX_GROUPS)
        except AccessDeniedError as error:
            self._publisher.publish_all(self._access.notice(self._clock.now(), error.title))
            raise
        at = self._clock.now()
        happened: tuple[Rebalance, ...] = ()
        if self._watched is None:
            self._watched = start_watching(listing.groups, listing.last_id)
        else:
            self._watched, happened = self._watched.then(
                at, listing.groups, complete=listing.is_complete, up_to=listing.last_id
            )
        events = self._access.notice(at, "") + [
            Event(
                rebalance.at,
                Kind.GROUP,
                None,
                Note(f"group {rebalance.group}", rebalance.text),
                rebalance.topic,
            )
            for rebalance in happened
        ]
        if listing.omitted_count and not self._left_out:
            many = listing.omitted_count + len(listing.groups)
            text = f"left out {listing.omitted_count:,} of {many:,} groups with members"
            events.append(Event(at, Kind.GROUP, None, Note(RECORDER, text)))
        events += self._other_group_events(at, listing)
        self._left_out = listing.omitted_count
        self._publisher.publish_all(events)
        return events

    def _other_group_events(self, at: datetime, listing: ActiveGroups) -> list[Event]:
        """Return which groups of no consumers have members now, or none any more; at first nothing.

        Of these nobody tells what is read, so that nothing else can be said of them.
        """
        now = frozenset((group.id, group.protocol) for group in listing.other_groups)
        before, gone = self._other_groups, frozenset[tuple[str, str]]()
        if before is not None:
            gone = before - now if listing.is_complete else gone
            now |= before - gone
        self._other_groups = now
        if before is None:
            return []
        came = [(id, f"{type} group has members; what they read is not known") for id, type in now]
        came = [entry for entry in came if entry[0] not in {id for id, _ in before}]
        went = [(id, f"{type} group lost its last member") for id, type in gone]
        return [
            Event(at, Kind.GROUP, None, Note(f"group {id}", text))
            for id, text in sorted([*came, *went])
        ]


@contextmanager
def watch_in_thread(
    client: ClusterClient,
    cluster_id: str,
    keep_on: Callable[[], bool],
    report: Callable[[list[Event]], None],
) -> Iterator[Callable[[], bool]]:
    """Watch the groups of a cluster in a thread of its own, until `keep_on` says no, or this ends.

    Their coordinators may be slow to answer; what else is recorded does not wait for them. Yields
    what says whether to keep on; that is no, too, once the thread has failed, as when nobody reads
    what `report` prints. That is raised at the end.
    """
    ended = threading.Event()
    failed: list[BaseException] = []

    def going() -> bool:
        return keep_on() and not failed

    def work() -> None:
        try:
            with Publisher(cluster_id) as publisher:
                watch = GroupEvents(client, SystemClock(), publisher)
                watch_groups(watch, SystemClock(), lambda: keep_on() and not ended.is_set(), report)
        except BaseException as error:  # noqa: BLE001 - raised below, where it is dealt with
            failed.append(error)

    thread = threading.Thread(target=work, name="groups", daemon=True)
    thread.start()
    try:
        yield going
    finally:
        ended.set()
        thread.join(END_SECONDS)
    if failed:
        raise failed[0]


def watch_groups(
    watch: GroupEvents,
    clock: Clock,
    keep_on: Callable[[], bool],
    report: Callable[[list[Event]], None] = lambda events: None,
) -> None:
    """Look until `keep_on` says no; what fails is logged once, and tried again."""
    failed = ""
    while keep_on():
        began = clock.monotonic()
        try:
            events = watch.look()
        except TrimtabError as error:
            if str(error) != failed:
                log.warning("groups: %s", error)
            failed = str(error)
            wait = DENIED_SECONDS if isinstance(error, AccessDeniedError) else RETRY_SECONDS
        else:
            failed = ""
            if events:
                report(events)
            took = clock.monotonic() - began
            wait = max(POLL_SECONDS - took, COST * took if took > POLL_SECONDS / COST else 0.0)
        sleep_until(clock, clock.monotonic() + wait, keep_on, step_seconds=POLL_SECONDS)
