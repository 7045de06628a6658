"""A real S3-compatible server (moto's) on loopback, and what is in its buckets."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from core.load.store import StorePath, store_of

KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@dataclass(frozen=True)
class ObjectStore:
    """A server that runs; `server` is its HOST:PORT."""

    server: str

    def address(self, place: str) -> str:
        """Return the address of a bucket and prefix."""
        return store_address(place, self.server)

    def bucket(self, name: str) -> StorePath:
        """Make an empty bucket; return a load root in it."""
        from pyarrow import fs

        made, _ = fs.FileSystem.from_uri(f"{self.address(name)}&allow_bucket_creation=true")
        made.create_dir(name)
        return store_of(self.address(f"{name}/team"))

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Let the server refuse everybody it does not know: nobody has been made known to it."""
        self._ask("reset-auth", b"0")
        try:
            yield
        finally:
            self._ask("reset-auth", b"inf")

    def _ask(self, what: str, content: bytes) -> None:
        plain = {"Content-Type": "text/plain"}
        url = f"http://{self.server}/moto-api/{what}"
        with urllib.request.urlopen(urllib.request.Request(url, content, plain)):
            pass


def store_address(place: str, server: str) -> str:
    return f"s3://{place}?scheme=http&region=us-east-1&endpoint_override={server}"


SERVE = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel("ERROR")
server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
server.start()
print(*server.get_host_and_port(), sep=":", flush=True)
sys.stdin.read()
"""


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Start a server on a free port; it ends with the block, or with this process."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield ObjectStore(process.stdout.readline().strip())
        finally:
            process.kill()


@pytest.fixture(scope="session")
def s3() -> Iterator[ObjectStore]:
    """The object store that all tests of one session share, each in a bucket of its own."""
    with object_store() as store, pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        yield store
