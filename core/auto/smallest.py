"""The smallest plan that helps: leaders alone where that is enough, else the fewest bytes; pure.

What evens brokers out by the mean of the day, and now too, comes before what does so for now only:
load follows the day, and what fits this hour may not fit the next.
"""

from __future__ import annotations

from datetime import timedelta
from math import inf

from core.auto.decision import Act, Reason
from core.auto.draft import drafted
from core.auto.history import History
from core.auto.observed import Observed, imbalance_of, sight_of
from core.auto.reckoning import lateness, reckoned
from core.auto.settings import Settings
from core.auto.weigh import weighed
from core.errors import UsageError
from core.units import format_duration

TRIES = 3
"""How often a plan that takes too long is made anew with fewer bytes."""
SPARE = 0.8
"""The part of the bytes that would just be copied in time: the next plan is another one."""


def smallest(settings: Settings, history: History, observed: Observed) -> Act | Reason:
    """Return the plan to carry out, or in one sentence why there is none.

    `observed` has a load, and brokers outside the band.
    """
    try:
        found = _leaders(settings, history, observed) or _copies(settings, history, observed)
        return _in_time(settings, history, observed, found)
    except UsageError as error:  # a topic of the settings that is not there any more
        return Reason("nothing-helps", f"{error.title} {error.next}")


def _leaders(settings: Settings, history: History, observed: Observed) -> Act | None:
    """Return the plan that only chooses leaders anew, if that is enough: it moves no data."""
    if act := _usual(settings, history, observed, leaders_only=True):
        return act
    now = sight_of(observed).load
    draft = drafted(settings, history, observed, now, leaders_only=True)
    if imbalance_of(settings, draft.then, after=True).outside:
        return None
    found = weighed(settings, observed, draft)
    return found if isinstance(found, Act) else None


def _copies(
    settings: Settings, history: History, observed: Observed, *, most_bytes: float = inf
) -> Act | Reason:
    if act := _usual(settings, history, observed, leaders_only=False, most_bytes=most_bytes):
        return act
    now = sight_of(observed).load
    draft = drafted(settings, history, observed, now, leaders_only=False, most_bytes=most_bytes)
    return weighed(settings, observed, draft)


def _usual(
    settings: Settings,
    history: History,
    observed: Observed,
    *,
    leaders_only: bool,
    most_bytes: float = inf,
) -> Act | None:
    """Return the plan by the mean of the day, if brokers are even enough by it now, too."""
    usual = sight_of(observed).usual()
    if usual is None:
        return None
    draft = drafted(
        settings, history, observed, usual, leaders_only=leaders_only, most_bytes=most_bytes
    )
    if draft.then.off(draft.then.after).max(initial=0.0) > settings.inner_band:
        return None
    found = weighed(settings, observed, draft)
    return found if isinstance(found, Act) else None


def _in_time(
    settings: Settings, history: History, observed: Observed, found: Act | Reason
) -> Act | Reason:
    """Return a plan whose run ends before hours in which nothing is begun, by its estimate."""
    if not (settings.avoid or settings.only):
        return found
    why = None
    for _ in range(1 + TRIES):
        if isinstance(found, Reason):
            break
        _, estimate = reckoned(settings, observed, found.plan)
        late, left = lateness(settings, observed, estimate)
        if not late:
            return found
        why = why or _too_long(settings, observed, late, left)
        if not found.bytes:
            break
        most = found.bytes * SPARE * left / (late + left)
        found = _copies(settings, history, observed, most_bytes=most)
    return why or found


def _too_long(settings: Settings, observed: Observed, late: float, left: float) -> Reason:
    assert observed.imbalance is not None
    at = (observed.now + timedelta(seconds=left)).astimezone()
    if settings.avoid.holds(at):
        ends = f"busy hours ({settings.avoid.text}) begin"
    else:
        ends = f"the maintenance window ({settings.only.text}) ends"
    return Reason(
        "too-long",
        f"{observed.imbalance.sentence}, but a run would take up to "
        f"{format_duration(late + left)}, and {ends} in {format_duration(left)}.",
    )
