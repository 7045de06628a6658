"""Going on with another cluster: those that have a name, and the switch to one of them.

The other cluster is looked at first: until it has answered, and the plan for this one is kept,
nothing here changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen

from core.text.terminal import printable
from core.units import counted
from tui.actions.action import GLOBAL, MAP, SCREENS, Action
from tui.feed.feed import Feed
from tui.global_actions.leave import LeaveWithPlan
from tui.global_actions.probe import ProbeSwitch
from tui.screen.services import Clusters, OpenCluster
from tui.session import Session

if TYPE_CHECKING:
    from core.cli.common.context import Target


class SwitchClusters(LeaveWithPlan):
    """The part of the dashboard that goes on with another cluster."""

    clusters: Clusters | None
    probe_switch: ProbeSwitch

    if TYPE_CHECKING:  # the dashboard itself does these

        def begin(self, session: Session, feed: Feed | None) -> None:
            """Take a session up; of another before it nothing is known any more."""

        def follow_feed(self) -> None:
            """Have what the feed sees from now on delivered here."""

        def make_screen(self, name: str) -> Screen[None]:
            """Return a new screen of that name."""

    def action_clusters(self, label: str | None = None) -> None:
        clusters = self.clusters
        if clusters is None:
            self.say("This cluster was made for this dashboard, which shows no other.", "look")
            return
        from tui.global_actions.clusters_dialog import ClustersDialog

        dialog = ClustersDialog(clusters, self._keep, label)

        async def answered(target: Target | None) -> None:
            if target is not None and dialog.opened is not None:
                clusters.here = target.label
                await self._switch_to_cluster(dialog.opened)

        self.push_screen(dialog, answered)

    def cluster_actions(self) -> list[Action]:
        """Return what the palette offers for each cluster: to go on with it."""
        known = () if self.clusters is None else self.clusters.known
        return [
            Action(
                "open_cluster",
                f"cluster {printable(target.label)}",
                "",
                f"Go on with it{', read-only' if target.read_only else ''}: {target.place}",
                (GLOBAL,),
                call=f"open_cluster({target.label!r})",
            )
            for target in known
        ]

    def action_open_cluster(self, label: str) -> None:
        self.action_clusters(label)

    async def _switch_to_cluster(self, opened: OpenCluster) -> None:
        """Show another cluster, and let go of the former, whose runs go on."""
        left = self.session
        moves = len(left.plan_to_keep) if self._has_plan_to_keep else 0
        if self.feed is not None:
            self.feed.stop()
        self.probe_switch.leave()
        self.forget_saved_plan()
        self.begin(*opened)
        former = [self.get_screen(name) for name in SCREENS if self.is_screen_installed(name)]
        shown = self.make_screen(MAP)
        await self.switch_screen(shown)
        for screen in former:
            self.uninstall_screen(screen)
            await screen.remove()
        self.install_screen(shown, MAP)
        self.follow_feed()
        if moves:
            plan = f"Your plan of {counted(moves, 'move')} for {left.cluster_name}"
            self.say(f"{plan} is kept for your return.", "fine")
