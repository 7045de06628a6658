"""A probe's report of each second: every broker's client health, and the events published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from core.errors import DocumentError
from core.units import format_time, parse_time
from core.watch.clients.health_detector import BrokerHealth, Health
from core.watch.clients.latency import WINDOW_SECONDS, Latency

FORMAT: Final = "trimtab.clients/1"


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """One line that the timeline was told, with its time of day."""

    at: datetime
    text: str
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """One second's report; `told` is what is new in it."""

    at: datetime
    cluster_id: str
    brokers: tuple[BrokerHealth, ...]
    told: tuple[ClientEvent, ...] = ()

    def of(self, broker: int) -> BrokerHealth | None:
        return next((seen for seen in self.brokers if seen.broker == broker), None)


def report_to_json(report: ProbeReport) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "at": format_time(report.at),
        "cluster_id": report.cluster_id,
        "window_seconds": WINDOW_SECONDS,
        "brokers": [
            {
                "broker": seen.broker,
                "health": seen.health.value,
                "lasts_seconds": seen.lasts_seconds,
                "errors": list(seen.errors),
                "failed": seen.failed,
                "produce": _wait_to_json(seen.produce),
                "fetch": _wait_to_json(seen.fetch),
            }
            for seen in report.brokers
        ],
        "told": [
            {"at": format_time(said.at), "text": said.text, "brokers": list(said.brokers)}
            for said in report.told
        ],
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
                    int(seen["broker"]),
                    Health(seen["health"]),
                    seen["lasts_seconds"],
                    tuple(seen["errors"]),
                    int(seen["failed"]),
                    _wait(seen["produce"]),
                    _wait(seen["fetch"]),
                )
                for seen in document["brokers"]
            ),
            tuple(
                ClientEvent(parse_time(said["at"]), said["text"], tuple(said["brokers"]))
                for said in document["told"]
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DocumentError("A report of clients cannot be read.") from error


def _wait_to_json(wait: Latency) -> dict[str, Any]:
    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, 2)

    return {
        "messages": wait.messages,
        "p50_ms": rounded(wait.p50_ms),
        "p99_ms": rounded(wait.p99_ms),
    }


def _wait(document: Mapping[str, Any]) -> Latency:
    return Latency(int(document["messages"]), document["p50_ms"], document["p99_ms"])
