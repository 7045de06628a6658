"""Metrics of a process: where they may go, what scrapes get, and what is wrong with a place."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from core.daemons.metrics import check_place, open_place
from core.errors import UsageError
from core.settings import parse_metrics


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (":9464", "127.0.0.1:9464"),
        ("9464", "127.0.0.1:9464"),
        ("0.0.0.0:09464", "0.0.0.0:9464"),
        ("bastion:1", "bastion:1"),
        ("[::1]:9464", "[::1]:9464"),
        ("/a/run.prom", "/a/run.prom"),
        ("run.prom", f"{Path.cwd()}/run.prom"),
        ("~nobody-here/run.prom", f"{Path.cwd()}/~nobody-here/run.prom"),
    ],
)
def test_metrics_destination_is_an_address_or_a_file(text: str, place: str) -> None:
    assert parse_metrics(text) == place


@pytest.mark.parametrize(
    "text", ["", ":", ":0", ":65536", ":x", ":-1", ":²", "a/b:1", "/a/run.txt", " b:1", "9" * 5000]
)
def test_invalid_metrics_destination_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="Metrics cannot go to"):
        parse_metrics(text)


def gauge(value: float) -> Metric:
    family = GaugeMetricFamily("trimtab_test", 'of "one"', labels=["cluster"])
    family.add_metric(['pr"o\\d\n'], value)
    return family


@pytest.fixture
def address() -> str:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def scrape(address: str, accept: str = "") -> tuple[str, str]:
    request = urllib.request.Request(f"http://{address}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def values(families: Iterator[Metric]) -> list[tuple[dict[str, str], float]]:
    return [(sample.labels, sample.value) for family in families for sample in family.samples]


def test_metrics_port_serves_the_last_published_metrics_in_both_formats(address: str) -> None:
    with closing(open_place(address)) as publisher:
        assert scrape(address)[1] == ""
        publisher.publish([gauge(1)])
        publisher.publish([gauge(2)])
        kind, text = scrape(address, "application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text")
        assert values(openmetrics(text)) == [({"cluster": 'pr"o\\d\n'}, 2.0)]
        kind, text = scrape(address)
        assert kind.startswith("text/plain")
        assert values(plain_text(text)) == [({"cluster": 'pr"o\\d\n'}, 2.0)]


def test_silent_scraper_does_not_block_other_scrapers(address: str) -> None:
    with closing(open_place(address)) as publisher:
        host, port = address.split(":")
        with closing(socket.create_connection((host, int(port)))):
            publisher.publish([gauge(1)])
            assert "trimtab_test" in scrape(address)[1]


def test_metrics_port_can_be_reopened_immediately_after_close(address: str) -> None:
    for number in range(3):
        with closing(open_place(address)) as publisher:
            publisher.publish([gauge(number)])
            assert f" {number}.0" in scrape(address)[1]
    with pytest.raises(urllib.error.URLError):
        scrape(address)


def test_metrics_port_in_use_is_reported_in_one_sentence(address: str) -> None:
    with closing(open_place(address)), pytest.raises(UsageError) as refused:
        check_place(address)
    assert refused.value.title == f"Metrics cannot be served on {address}: Address already in use."


def test_unknown_metrics_host_is_reported_in_one_sentence() -> None:
    with pytest.raises(UsageError) as refused:
        check_place("no.invalid:9464")
    assert refused.value.title.startswith("Metrics cannot be served on no.invalid:9464: ")


def test_metrics_file_is_replaced_as_a_whole_and_kept_after_close(tmp_path: Path) -> None:
    path = tmp_path / "run.prom"
    publisher = open_place(str(path))
    assert not path.exists()
    for number in (1, 2):
        publisher.publish([gauge(number)])
        assert [*tmp_path.iterdir()] == [path]
        assert values(plain_text(path.read_text())) == [({"cluster": 'pr"o\\d\n'}, number)]
    publisher.close()
    assert path.exists()


def test_unwritable_metrics_file_is_refused_at_start_and_later_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for wrong in (tmp_path / "none" / "run.prom", tmp_path / "file" / "run.prom"):
        (tmp_path / "file").touch()
        with pytest.raises(UsageError, match="there is no folder"):
            check_place(str(wrong))
    (tmp_path / "folder.prom").mkdir()
    with pytest.raises(UsageError, match="it is a folder"):
        check_place(str(tmp_path / "folder.prom"))
    (tmp_path / "there").mkdir()
    publisher = open_place(str(tmp_path / "there" / "run.prom"))
    (tmp_path / "there").rmdir()
    publisher.publish([gauge(1)])
    publisher.publish([gauge(2)])
    assert len(caplog.records) == 1
