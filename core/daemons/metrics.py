"""Metrics of a background process: served on a port, or written to a file for node_exporter.

Whoever scrapes gets what the process has published last; it is asked for nothing and waits for
nobody.
"""

from __future__ import annotations

import logging
import os
import socket
import socketserver
import threading
from collections.abc import Iterable
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from core.errors import UsageError
from core.settings import METRICS_SUFFIX

if TYPE_CHECKING:
    from prometheus_client import Metric

REQUEST_SECONDS = 10.0
"""How long a scraper may take to ask, and to read."""

log = logging.getLogger(__name__)


class Publisher(Protocol):
    """Where a process publishes its metrics."""

    def publish(self, metrics: Iterable[Metric]) -> None:
        """Replace what scrapes get. What is wrong with the place is logged, not raised."""

    def close(self) -> None:
        """Publish no more; a file stays as it is."""


def open_place(place: str) -> Publisher:
    """Return what publishes to a place, as `parse_metrics` has it; raises UsageError."""
    return _MetricsFile(Path(place)) if place.endswith(METRICS_SUFFIX) else _Server(place)


def check_place(place: str) -> None:
    """Raise UsageError where nothing could be published now."""
    open_place(place).close()


class _LatestMetrics:
    """What was published last, as prometheus_client takes it."""

    def __init__(self, metrics: Iterable[Metric] = ()) -> None:
        from prometheus_client import CollectorRegistry

        self.metrics = tuple(metrics)
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        return self.metrics

    def describe(self) -> Iterable[Metric]:
        return ()


class _MetricsFile:
    """A file that is replaced as a whole, and stays as its process has left it."""

    def __init__(self, path: Path) -> None:
        self._path, self._trouble = path, ""
        if path.is_dir():
            why = "it is a folder"
        elif not path.parent.is_dir():
            why = f"there is no folder {path.parent}"
        elif not os.access(path.parent, os.W_OK | os.X_OK):
            why = f"you may not write to {path.parent}"
        else:
            return
        raise UsageError(f"Metrics cannot be written to {path}: {why}.", next="Name another file.")

    def publish(self, metrics: Iterable[Metric]) -> None:
        from prometheus_client import write_to_textfile

        trouble = ""
        try:
            # Beside it, under a name that node_exporter does not read, and renamed.
            write_to_textfile(str(self._path), _LatestMetrics(metrics).registry)
        except OSError as error:
            trouble = str(error)
        if trouble and trouble != self._trouble:
            log.warning("metrics cannot be written: %s", trouble)
        self._trouble = trouble

    def close(self) -> None:
        pass


class _HttpServer(ThreadingHTTPServer):
    def server_bind(self) -> None:
        # HTTPServer's own would ask for this machine's full name, which may take long.
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a scrape failed", exc_info=True)


class _Server:
    """A port that answers each GET: in OpenMetrics or Prometheus' text, as is asked for."""

    def __init__(self, place: str) -> None:
        from prometheus_client import MetricsHandler

        self._newest = _LatestMetrics()
        own = {"registry": self._newest.registry, "timeout": REQUEST_SECONDS}
        handler = type("_Handler", (MetricsHandler,), own)
        host, _, port = place.rpartition(":")
        try:
            addresses = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
            family, _, _, _, address = addresses[0]
            kind = type("_Server", (_HttpServer,), {"address_family": family})
            self._server: ThreadingHTTPServer = kind(address[:2], handler)
        except OSError as error:
            raise UsageError(
                f"Metrics cannot be served on {place}: {error.strerror or error}.",
                next="Give another HOST:PORT, or end what listens there.",
            ) from error
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def publish(self, metrics: Iterable[Metric]) -> None:
        self._newest.metrics = tuple(metrics)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
