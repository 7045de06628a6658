"""Every kind of journal record, killed before and after: the run's process, or nodes.

What is due is played by the form of run that brings most of it; a form that was played and did
not bring what it should is tried a few times more, and then it is said to be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from random import Random

from chaos.brokers import Brokers
from chaos.forms import FORMS, OF_A_RUN, Cancelled, Form, Restless
from chaos.lives import Lived, Lives
from chaos.orders import WHEN, Order
from chaos.result_log import ResultLog

TIMES = 3
TRIES = 5
"""How often a form is played for what it did not bring."""
LAST = ("ended", "notified")
"""What any form of run brings, once."""
ONE_OF = (
    ("after ended", "before notified", "after notified"),
    ("before pairs_taken", "after pairs_taken"),
)
"""Deaths of which a run is given only one: nobody goes on with a run that has ended, and a follower
that was taken out of its leader's limit is in sync before the next process looks."""
PARTS = ("source", "destination", "uninvolved and controller")
"""An uninvolved broker and the active controller die together: neither holds what moves."""
CANCELS = "cancelled on real brokers"
PAUSES = "paused on real brokers"
RUNS = "runs on real brokers"
CANCELLED_AT = OF_A_RUN[:-1]


def died(part: str, order: Order) -> list[str]:
    """Return the groups in which the death of a part's nodes at a record counts."""
    return [f"{role} killed {order}" for role in part.split(" and ")]


def compatible(orders: Iterable[Order]) -> Iterator[Order]:
    """Yield those orders that can all strike one run: the first one where only one can."""
    given: set[tuple[str, ...]] = set()
    for order in orders:
        groups = {group for group in ONE_OF if str(order) in group}
        if not groups & given:
            given |= groups
            yield order


class Killing:
    """Plays one run after another until nothing is due."""

    def __init__(self, brokers: Brokers, lives: Lives, results: ResultLog, rng: Random) -> None:
        self._brokers, self._lives, self._results, self._rng = brokers, lives, results, rng
        self._missed: Counter[str] = Counter()

    # -- the run's process ------------------------------------------------------------------------

    def cancels_and_pauses(self) -> Iterator[None]:
        """Cancel a run after each kind of record, and pause and resume one 50 times."""
        for at in CANCELLED_AT:
            if not self._results.knows(CANCELS, f"after {at}"):
                lived = self._lives.live(Cancelled(self._brokers, self._rng, at))
                self._keep(lived, [])
                self._add(CANCELS, f"after {at}", lived)
                yield
        if not self._results.count(PAUSES):
            self._add(PAUSES, "50 times", self._lives.live(Restless(self._brokers, self._rng)))
            yield

    def processes(self) -> Iterator[None]:
        """Kill -9 the run's process before and after every kind of record, three times each."""
        while (form := self._next(self._due)) is not None:
            due = self._due(form)
            self._keep(self._lives.live(form(self._brokers, self._rng), due), due)
            yield

    def _due(self, form: type[Form]) -> list[Order]:
        """Return the orders that a run of this form is to be given: those seen least often."""
        orders = [
            Order(when, kind, nth=self._nth(f"{when} {kind}"))
            for kind in dict.fromkeys((*form.brings, *LAST))
            for when in WHEN
        ]
        self._rng.shuffle(orders)
        orders.sort(key=lambda order: self._results.count(str(order)))
        due = [o for o in orders if self._results.count(str(o)) < TIMES and not self._is_missing(o)]
        return list(compatible(due))[: form.lives]

    def _nth(self, name: str) -> int:
        """Return at which record of its kind to strike: not always the first."""
        kind = name.split(" ")[1]
        again = kind in OF_A_RUN[3:-1] and not self._missed[name]
        return 1 + self._results.count(name) if again else 1

    def _keep(self, lived: Lived, due: list[Order]) -> None:
        self._add(RUNS, lived.run or "unborn", lived)
        for order in lived.struck:
            self._add(str(order), lived.run or "unborn", lived)
        for order in due:
            if order not in lived.struck:
                self._missed[str(order)] += 1

    # -- nodes ------------------------------------------------------------------------------------

    def nodes(self, parts: Sequence[str]) -> Iterator[None]:
        """Kill -9 nodes before every kind of record, for each of these parts of theirs in a run."""
        for part in parts:
            while (form := self._next(partial(self._due_of, part))) is not None:
                due = self._due_of(part, form)
                every = [order for form in FORMS for order in self._due_of(part, form)]
                once = tuple(dict.fromkeys(every))
                lived = self._lives.live(form(self._brokers, self._rng), once, part)
                self._add(RUNS, lived.run or "unborn", lived)
                for order in lived.struck:
                    for group in died(part, order):
                        self._add(group, lived.run, lived)
                for order in due:
                    if order not in lived.struck:
                        self._missed[f"{part} {order}"] += 1
                yield

    def _due_of(self, part: str, form: type[Form]) -> list[Order]:
        orders = [Order("before", kind, "kill nodes") for kind in form.brings]
        return [
            order
            for order in orders
            if not self._results.count(died(part, order)[0])
            and self._missed[f"{part} {order}"] < TRIES * 2
        ]

    # -- what comes next --------------------------------------------------------------------------

    def _next(self, due_of: Callable[[type[Form]], list[Order]]) -> type[Form] | None:
        """Return the form that brings most of what is due."""
        best = max(FORMS, key=lambda form: len(due_of(form)))
        return best if due_of(best) else None

    def _is_missing(self, order: Order) -> bool:
        return self._missed[str(order)] >= TRIES

    def _add(self, group: str, name: str, lived: Lived) -> None:
        while self._results.knows(group, name):
            name += "'"
        wrong = list(lived.wrong)
        result = {"outcome": lived.outcome, "why": lived.why, "run": lived.run, "wrong": wrong}
        self._results.add(group, name, result | {"lives": lived.lives})
