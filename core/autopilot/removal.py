"""Removes the autopilot of a cluster that no longer exists, such as a demo's."""

from __future__ import annotations

import shutil

from core import paths


def forget_autopilot(cluster_id: str) -> None:
    """Stop its process and remove its switch and its decisions; its runs go on."""
    folder = paths.autopilot_dir(cluster_id)
    if not folder.is_dir():
        return
    # Imported only now: most demos have no autopilot, and it imports planner and load.
    from core.autopilot import switch as switches
    from core.autopilot.assembly import ROLE
    from core.autopilot.daemon import STOP_SECONDS
    from core.daemons.supervisor import stop_daemons

    # A process that has only just been started finds no switch: it is off.
    switches.switch_file(cluster_id).unlink(missing_ok=True)
    stop_daemons(paths.load_root(), cluster_id, [ROLE], seconds=STOP_SECONDS)
    shutil.rmtree(folder)
