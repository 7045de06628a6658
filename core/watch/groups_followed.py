"""Consumer groups followed: looks, one after another, and the rates over the time between them.

Pure. Most clients commit every 5 s: between two looks a second apart there is a whole commit or
none. So rates are told over half a minute, as far as it has been looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.watch.groups import GroupView, Look, views

OVER_SECONDS = 30.0
"""The time that rates are told over."""
LEAST_SECONDS = 5.0
"""A shorter time tells no rate; looks are kept so far apart."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The newest look, and earlier ones, the oldest first; times are of the cluster's clock."""

    newest: Look
    earlier: tuple[Look, ...] = ()

    def then(self, look: Look) -> Followed:
        """Return what is followed after one more look."""
        kept = self.earlier
        if not kept or self.newest.at - kept[-1].at >= LEAST_SECONDS:
            kept = (*kept, self.newest)
        recent = tuple(one for one in kept if look.at - one.at <= OVER_SECONDS)
        return Followed(look, recent or kept[-1:])

    @property
    def before(self) -> Look | None:
        """Return the look that rates are told from."""
        first = self.earlier[0] if self.earlier else None
        return first if first and self.newest.at - first.at >= LEAST_SECONDS else None

    @property
    def over_seconds(self) -> float | None:
        """Return the time that rates are told over; None while there are none."""
        return None if self.before is None else self.newest.at - self.before.at

    @property
    def views(self) -> tuple[GroupView, ...]:
        """Return the groups that there are now, by id."""
        return views(self.newest, self.before)
