"""What is to happen at which kind of journal record; `inject/sitecustomize.py` carries it out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from core import files
from core.run.journal.records import Kind

WHEN = ("before", "after")
KINDS = tuple(kind.value for kind in Kind)


@dataclass(frozen=True, slots=True)
class Order:
    """`does` is `kill` (the run's own process), `kill nodes` (`pids`), `crash` (by an error of its
    own), `be refused` (the next rates, as by a broker's policy), or what the run is asked for.

    It happens at the `nth` record of its kind, or at the first one after that if nodes are down.
    """

    when: str
    kind: str
    does: str = "kill"
    pids: tuple[int, ...] = ()
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.when} {self.kind}"

    @property
    def id(self) -> str:
        return f"{self.when}-{self.kind}-{self.does}-{self.nth}".replace(" ", "-")


class Orders:
    """The folder through which a run's process is given its orders and says what it did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._struck, self._down = folder / "struck", folder / "down"
        self._orders: tuple[Order, ...] = ()
        self.give(())

    def give(self, orders: Sequence[Order]) -> None:
        """Give new orders; none of them has been carried out yet."""
        self._struck.unlink(missing_ok=True)
        self._down.unlink(missing_ok=True)
        self._orders = tuple(orders)
        self._write()

    def aim(self, pids: Iterable[int]) -> None:
        """Say which processes play the nodes' part from now on."""
        there = tuple(pids)
        self._orders = tuple(
            replace(o, pids=there) if o.does == "kill nodes" else o for o in self._orders
        )
        self._write()

    def _write(self) -> None:
        files.write_text(
            self.folder / "orders.json",
            json.dumps([asdict(o) | {"id": o.id} for o in self._orders]),
        )

    def struck(self) -> list[Order]:
        """Return what has been carried out so far."""
        done = self._struck.read_text().split() if self._struck.exists() else []
        return [order for order in self._orders if order.id in done]

    @property
    def nodes_are_down(self) -> bool:
        return self._down.exists()

    def nodes_are_back(self) -> None:
        self._down.unlink(missing_ok=True)
