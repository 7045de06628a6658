"""A probe's report of each second: every broker's client health, and the events published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from core.errors import DocumentError
from core.units import format_time, parse_time
from core.watch.client_health.health_detector import BrokerHealth, Health
from core.watch.client_health.latency import WINDOW_SECONDS, Latency

FORMAT: Final = "trimtab.clients/1"


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """One line that the timeline was told, with its time of day."""

    at: datetime
    text: str
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """One second's report; `events` are what is new in it."""

    at: datetime
    cluster_id: str
    brokers: tuple[BrokerHealth, ...]
    events: tuple[ClientEvent, ...] = ()

    def of(self, broker: int) -> BrokerHealth | None:
        return next((health for health in self.brokers if health.broker == broker), None)


def report_to_json(report: ProbeReport) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "at": format_time(report.at),
        "cluster_id": report.cluster_id,
        "window_seconds": WINDOW_SECONDS,
        "brokers": [
            asdict(broker)
            | {
                "health": broker.health.value,
                "produce": _latency_to_json(broker.produce),
                "fetch": _latency_to_json(broker.fetch),
            }
            for broker in report.brokers
        ],
        "told": [asdict(event) | {"at": format_time(event.at)} for event in report.events],
    }


def report_from_json(document: Mapping[str, Any]) -> ProbeReport:
    """Return the report that `report_to_json` wrote. Raises DocumentError for anything else."""
    try:
        if document["format"] != FORMAT:
            raise DocumentError(f"A report of clients has format {document['format']}.")
        return ProbeReport(
            parse_time(document["at"]),
            document["cluster_id"],
            tuple(
                BrokerHealth(
                    int(entry["broker"]),
                    Health(entry["health"]),
                    entry["lasts_seconds"],
                    tuple(entry["errors"]),
                    int(entry["failed"]),
                    _wait(entry["produce"]),
                    _wait(entry["fetch"]),
                )
                for entry in document["brokers"]
            ),
            tuple(
                ClientEvent(parse_time(event["at"]), event["text"], tuple(event["brokers"]))
                for event in document["told"]
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DocumentError("A report of clients cannot be read.") from error


def _latency_to_json(wait: Latency) -> dict[str, Any]:
    p50, p99 = (None if ms is None else round(ms, 2) for ms in (wait.p50_ms, wait.p99_ms))
    return {"messages": wait.messages, "p50_ms": p50, "p99_ms": p99}


def _wait(document: Mapping[str, Any]) -> Latency:
    return Latency(int(document["messages"]), document["p50_ms"], document["p99_ms"])
