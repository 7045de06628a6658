"""Why the Timeline has nothing to show, and what to do about it."""

from __future__ import annotations

from core.errors import TrimtabError
from tui.session import Session


def why_nothing(session: Session, error: TrimtabError | None, *, looked: bool) -> tuple[str, ...]:
    """Return a title and sentences."""
    if error is not None:
        return (error.title, error.next or "")
    if session.state is None:
        return (f"asking {session.cluster_name} …",)
    if not looked:
        return ("reading …",)
    if session.address is None:
        return (
            "A saved document has no past.",
            "Open the cluster itself: what happens there is recorded while this is open.",
        )
    if session.address.simulated:
        return (
            "Simulated clusters are not recorded.",
            "They are gone with their demo. On real brokers a recorder runs beside this "
            "dashboard: trimtab sandbox demo starts some on this machine.",
        )
    here = f"trimtab -b {session.address.bootstrap} timeline --record"
    if not session.load_wanted:
        return (
            "Nothing has been recorded of this cluster on this machine.",
            "With --no-load no recorder runs beside the dashboard.",
            f"Open it without that, or record by hand: {here}",
        )
    return (
        "Nothing has been recorded yet.",
        "The recorder has just been started: its first look takes some seconds.",
        f"If it does not come: {here}",
    )
