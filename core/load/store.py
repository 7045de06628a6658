"""Places in object stores, as `--snapshots ADDRESS` names them: S3, GCS, Azure, what pyarrow opens.

A place holds nothing but its address, so it can be pickled and sent to executors; the store is
opened by whoever asks it first, once in a process. pyarrow is imported then, and never before.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from core import files
from core.errors import StoreError, TrimtabError, UsageError

ANSWER_SECONDS = 8.0
"""For how long a store may leave a small question without an answer: a user has one within 10 s."""
CONNECT_SECONDS, SILENT_SECONDS, TRIES = 2.0, 3.0, 2
"""How S3 is asked: pyarrow's own timeouts let a store that is silent hold a reader for minutes."""
RETRY_SECONDS = 3.0
"""For how long GCS is asked again: pyarrow's own limit is 15 minutes."""

DENIED = re.compile(
    "ACCESS_?DENIED|INVALID_?ACCESS_?KEY|SIGNATURE_?DOES|EXPIRED_?TOKEN|INVALID_?TOKEN|PERMISSION"
    "|UNAUTHENTICATED|UNAUTHORIZED|FORBIDDEN|AUTHENTICAT",
    re.IGNORECASE,
)

SECRET = re.compile("secret|key|token|password", re.IGNORECASE)
"""Options of an address that would hold one."""
CREDENTIALS = (
    "Give credentials as the store's own tools take them: in the environment (AWS_PROFILE, "
    "AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_CLIENT_ID), in their files, or by "
    "the machine's role."
)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class StorePath:
    """A place in an object store: as much of pathlib's Path as snapshots need.

    What asks the store raises StoreError when it does not answer or says no, UsageError for an
    address that is none and for a bucket that is not there.
    """

    address: str
    parts: tuple[str, ...] = ()

    def __truediv__(self, name: str) -> StorePath:
        return StorePath(self.address, (*self.parts, name))

    def __str__(self) -> str:
        """Return the address without its options."""
        return "/".join((self.address.partition("?")[0], *self.parts))

    @property
    def name(self) -> str:
        return self.parts[-1] if self.parts else ""

    def read_bytes(self) -> bytes:
        """Return an object's content, of one version even where it is replaced meanwhile.

        Raises FileNotFoundError when there is none.
        """
        return self._ask(_read)

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return a small object's text; raises as `read_bytes`, StoreError after 8 s."""
        return self._ask(_read, ANSWER_SECONDS).decode(encoding)

    def write_bytes(self, content: bytes) -> None:
        """Put an object, replacing the one before.

        One request up to 5 MB, and atomic on S3 and GCS. On Azure and HDFS pyarrow empties the
        object first: who reads it then has to read again.
        """

        def write(store: Any, key: str) -> None:
            with store.open_output_stream(key, compression=None) as stream:
                stream.write(content)

        self._ask(write)

    def files(self) -> Mapping[str, datetime]:
        """Return when each object below was written, by its path from here."""

        def listed(store: Any, key: str) -> dict[str, datetime]:
            from pyarrow import fs

            return {
                info.path.removeprefix(key).lstrip("/"): info.mtime
                for info in store.get_file_info(fs.FileSelector(key, recursive=True))
                if info.type == fs.FileType.File
            }

        try:
            return self._ask(listed)
        except FileNotFoundError:
            return {}

    def delete(self) -> None:
        """Delete all objects below."""
        self._ask(lambda store, key: store.delete_dir(key))

    def _ask(self, work: Callable[[Any, str], Answer], within: float | None = None) -> Answer:
        """Have the store do `work` with this place's key, in a thread where time is limited."""
        answers: list[Answer] = []
        errors: list[BaseException] = []

        def ask() -> None:
            try:
                store, base = _opened(self.address)
                key = "/".join((base.rstrip("/"), *self.parts))
                try:
                    answers.append(work(store, key))
                except OSError as error:
                    if isinstance(error, FileNotFoundError) or "NO_SUCH_BUCKET" in str(error):
                        _check_bucket(store, key)
                    raise
            except Exception as error:  # noqa: BLE001 - told below, or raised as it is
                errors.append(error)

        if within is None:
            ask()
        else:
            thread = threading.Thread(target=ask, daemon=True)
            thread.start()
            thread.join(within)
            if thread.is_alive():
                raise _silent(StorePath(self.address), f"no answer within {within:g} s")
        for error in errors:
            if (shown := _user_error(self, error)) is error:
                raise error
            raise shown from error
        return answers[0]


Root = Path | StorePath
"""Where snapshots lie: a folder, or a place in an object store."""


def write_text(path: Root, text: str) -> None:
    """Write a small document whole: by rename in a folder, in one put in a store."""
    if isinstance(path, Path):
        files.write_text(path, text)
    else:
        path.write_bytes(text.encode())


def store_of(address: str) -> StorePath:
    """Return the load root that an address means; its folder `snapshots` means the same.

    Nothing is asked yet: whether there is such a store turns out with the first read. Raises
    UsageError for one that holds a secret: addresses are in journals and in the list of processes.
    """
    place, mark, options = address.partition("?")
    user = place.partition("://")[2].rpartition("@")[0]
    if ":" in user or any(SECRET.search(name) for name, _ in parse_qsl(options)):
        raise UsageError("An address with a secret in it may be seen by others.", next=CREDENTIALS)
    return StorePath(place.rstrip("/").removesuffix("/snapshots") + mark + options)


@lru_cache(maxsize=8)
def _opened(address: str) -> tuple[Any, str]:
    """Return the store behind an address, and where in it the address leads."""
    from pyarrow import fs

    store, base = fs.FileSystem.from_uri(address)
    if store.type_name == "local":
        raise UsageError(f"{address} is a folder.", next="Give its path instead.")
    # What an address cannot say is set by making the store once more, as unpickling one does.
    more: dict[str, Any] = {}
    if store.type_name == "s3":
        more = {
            "connect_timeout": CONNECT_SECONDS,
            "request_timeout": SILENT_SECONDS,
            "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=TRIES),
            # Else even a small object is put in three requests.
            "allow_delayed_open": True,
        }
    elif store.type_name == "gcs":
        more = {"retry_time_limit": timedelta(seconds=RETRY_SECONDS)}
    elif store.type_name == "abfs":
        # Reads without credentials end the process (std::terminate); this one raises an error.
        store.get_file_info(base)
    if more:
        make, (options,) = store.__reduce__()
        proxy = options.pop("proxy_options", None)
        if proxy and proxy["host"]:
            options["proxy_options"] = proxy
        store = make(options | more)
    return store, base


def _read(store: Any, key: str) -> bytes:
    # One request for all of it: parts might be of two versions.
    with store.open_input_file(key) as file:
        content: bytes = file.read_at(file.size(), 0)
    return content


def _check_bucket(store: Any, key: str) -> None:
    """Raise UsageError where a key is not found because its bucket is not there."""
    from pyarrow import fs

    bucket = key.partition("/")[0]
    try:
        missing = bool(bucket) and store.get_file_info(bucket).type == fs.FileType.NotFound
    except OSError:  # who may not look at the bucket may still read in it
        return
    if missing:
        raise UsageError(
            f"There is no bucket {bucket}.",
            next="Check the address, its region and its endpoint.",
        )


def _user_error(place: StorePath, error: BaseException) -> BaseException:
    """Return what a user is told of an error of a store; what is none of its own as it is."""
    from pyarrow import ArrowException

    if isinstance(error, (FileNotFoundError, TrimtabError)):
        return error
    root, text = StorePath(place.address), str(error)
    if isinstance(error, ArrowException):  # what a store says comes as an OSError
        return UsageError(
            f"{root} is not an address that snapshots can be at: {_brief_error_text(text)}.",
            next="Give a folder, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or "
            "abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX.",
        )
    if not isinstance(error, OSError):
        return error
    if DENIED.search(text):
        return StoreError(
            f"The object store refuses access to {place}.",
            next=f"{CREDENTIALS} Reading needs the rights to get and list, publishing put and "
            "delete, too.",
        )
    return _silent(root, _brief_error_text(text))


def _silent(root: StorePath, why: str) -> StoreError:
    return StoreError(
        f"The object store at {root} does not answer: {why}.",
        next="Check the address (bucket, region, endpoint_override), the network and the proxy.",
    )


def _brief_error_text(text: str) -> str:
    """Return what of an error's text a user needs, the same whenever the same is wrong."""
    curl = re.search(r"(?:curlCode: \d+, |CURL error \[\d+\]=)(.+?)(?:;| error_)", text)
    brief = curl[1] if curl else re.sub(r" \(Request ID.*", "", text.partition("\n")[0])
    return brief.strip().rstrip(".")[:200]
