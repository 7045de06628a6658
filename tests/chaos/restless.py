"""A run that is paused and resumed at random."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.forms import Form, Script
from chaos.layout import SLOW

from core.run.journal.records import Kind


class Restless(Form):
    """A run that is paused and resumed at random, fifty times."""

    brings = ()
    rate = SLOW
    pauses = 50

    def script(self, run: str) -> Script:
        yield from self.until(lambda: self.brokers.is_flying(run))
        for _ in range(self.pauses):
            for kind, payload in (("pause", {"floor": self.rng.random() < 0.5}), ("resume", {})):
                taken = self.brokers.history(run).last_request
                self.ask(run, kind, payload)
                yield from self.until(
                    lambda taken=taken: self.brokers.history(run).last_request > taken
                )
                for _ in range(self.rng.randint(0, 2)):
                    yield

    def wrong(self, run: str) -> Iterator[str]:
        taken = self.brokers.kinds(run).count(Kind.REQUEST)
        if taken < 2 * self.pauses:
            yield f"only {taken} requests were taken up"
