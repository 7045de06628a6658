"""A stand-in for librdkafka's clients, on a simulated cluster and by its clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.probe.round_trip import ClientSide, ProbeLayout, ProbeResult
from core.watch.client_health.probe_loop import TOPIC


class Pings:
    """Answers after 2 ms for as long as a broker lives; says so when it does not.

    `delays` are what a broker takes longer, in milliseconds.
    """

    def __init__(self, client: ClusterClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.delays: dict[int, float] = {}
        self.sent: list[tuple[float, int]] = []
        self.closed = False
        self.then: list[tuple[float, Callable[[], None]]] = []
        """What happens, and when."""

    def set_partitions(self, partitions: Mapping[int, int]) -> None:
        pass

    def send(self, broker: int) -> None:
        self.sent.append((self._clock.monotonic(), broker))

    def poll_results(self, seconds: float) -> list[ProbeResult]:
        self._clock.sleep(seconds)
        now = self._clock.monotonic()
        while self.then and self.then[0][0] <= now:
            self.then.pop(0)[1]()
        alive = {broker.id for broker in self._client.describe_cluster().brokers if broker.alive}
        heard = []
        for number, (_, broker) in enumerate(self.sent[self._heard :], self._heard):
            if broker not in alive:
                heard.append(
                    ProbeResult(now, ClientSide.PRODUCE, broker, number, error="_TRANSPORT")
                )
                continue
            ms = 2.0 + self.delays.get(broker, 0.0)
            heard += [ProbeResult(now, side, broker, number, ms) for side in ClientSide]
        self._heard = len(self.sent)
        return heard

    _heard = 0

    def fetch_layout(self) -> ProbeLayout:
        state = self._client.describe_cluster()
        alive = frozenset(broker.id for broker in state.brokers if broker.alive)
        if state.topic(TOPIC) is None:
            return ProbeLayout(alive, None)
        rows = state.partitions_of(TOPIC)
        return ProbeLayout(alive, {int(state.partition[row]): state.replicas(row) for row in rows})

    def close(self) -> None:
        self.closed = True
