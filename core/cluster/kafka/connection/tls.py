"""What a TLS connection trusts, checks and shows, of PEM or of Java's own stores."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.cluster.kafka.connection.key_stores import (
    KeyStore,
    StorePasswordError,
    is_key_store,
    read_key_store,
)
from core.cluster.kafka.connection.properties import check_no_nul, read_named_file
from core.errors import DocumentError
from core.passwords import (
    MissingPassword,
    PasswordMissingError,
    WrongPasswordError,
    find_password,
)

KEY_PASSWORD = "ssl.key.password"

_BLOCK = re.compile(r"(-----BEGIN [^-\r\n]+-----)(.*?)(-----END [^-\r\n]+-----)", re.DOTALL)
_COLUMNS = 64
_PEM = b"-----BEGIN "
_KEY_MISMATCH = frozenset(("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"))
"""What OpenSSL says of a key that it could read, and whose certificate is another one."""


@dataclass(frozen=True, slots=True)
class Pem:
    """A PEM text, in a file or inline."""

    location: str | None = None
    text: str | None = field(default=None, repr=False)

    def read(self) -> str:
        """Return the PEM blocks alone, of which tools write more; raises OSError and ValueError."""
        if self.text is not None:
            return self.text
        return _pem_blocks(Path(self.location or "").read_bytes().decode("latin-1"))


@dataclass(frozen=True, slots=True)
class Tls:
    """Who is trusted, what a client shows, and whether names are checked; `file` says so."""

    ca: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    file: Path | None = None

    def librdkafka_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {}
        stores = {"ca": self.ca, "certificate": self.certificate, "key": self.key}
        for name, store in stores.items():
            if store is not None and store.location is not None:
                config[f"ssl.{name}.location"] = store.location
            elif store is not None:
                config[f"ssl.{name}.pem"] = store.read()
        if self.key_password is not None:
            config[KEY_PASSWORD] = self.key_password
        checked = "https" if self.check_hostname else "none"
        return config | {"ssl.endpoint.identification.algorithm": checked}

    def context(self) -> ssl.SSLContext:
        """Return it for Python; raises DocumentError, PasswordMissingError, WrongPasswordError."""
        with _certificate_errors():
            context = ssl.create_default_context(cadata=self.ca.read() if self.ca else None)
            context.check_hostname = self.check_hostname
            self._load_key(context)
        return context

    def check_key(self) -> None:
        """Load the client's key, if it has one; raises as `context`."""
        with _certificate_errors():
            self._load_key(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _load_key(self, context: ssl.SSLContext) -> None:
        """Load the client certificate, if there is one; raises as `context`.

        Python reads key pairs from files only, so inline ones pass by a private temporary folder.
        The password of an encrypted key is given or refused here: left alone, OpenSSL would ask on
        the terminal, whatever is drawn there.
        """
        import tempfile

        certificate, key = self.certificate, self.key
        if certificate is None or key is None:
            return
        encrypted = False

        def password() -> str:
            nonlocal encrypted
            encrypted = True
            if self.key_password is not None:
                return self.key_password
            assert self.file is not None
            owner = f"the private key {key.location or f'in {self.file}'}"
            raise PasswordMissingError(MissingPassword(self.file, KEY_PASSWORD, owner))

        with tempfile.TemporaryDirectory(prefix="trimtab-") as folder:
            places = []
            for name, store in (("certificate", certificate), ("key", key)):
                if store.location is not None:
                    places.append(Path(store.location))
                    continue
                place = Path(folder) / name
                place.touch(mode=0o600)
                place.write_text(store.read())
                places.append(place)
            try:
                context.load_cert_chain(places[0], places[1], password)
            except ssl.SSLError as error:
                if not encrypted or error.reason in _KEY_MISMATCH:
                    raise
                whose = f"the private key {key.location or ''}".rstrip()
                raise WrongPasswordError(
                    f"The password is not that of {whose}.",
                    next="Set ssl.key.password in the client properties (--command-config).",
                ) from error


def is_pem(place: Path) -> bool:
    """Return whether a file is there and has PEM blocks in it."""
    try:
        return _PEM in place.read_bytes()
    except (OSError, ValueError):
        return False


def read_tls(entries: dict[str, str], path: Path, *, used: bool) -> Tls:
    """Take TLS out of a file's properties, unread where not `used`; raises DocumentError."""
    key_password = entries.pop(KEY_PASSWORD, None) or find_password(path, KEY_PASSWORD)
    check_no_nul(KEY_PASSWORD, key_password or "", path)

    def store(kind: str, *inline: str) -> KeyStore | list[Pem | None]:
        """Return one of Java's stores, or PEMs: of the one file, or each of its own property."""
        entries.pop(f"{kind}.type", None)
        location, texts = entries.pop(f"{kind}.location", ""), [entries.pop(n, "") for n in inline]
        password_of = f"{kind}.password"
        password = entries.pop(password_of, None) or find_password(path, password_of)
        check_no_nul(password_of, password or "", path)
        if not used:
            return [None] * len(texts)
        if location and any(texts):
            raise DocumentError(
                f"{path}: both {kind}.location and {' or '.join(inline)} are set.",
                next="Take one of them out: Kafka's clients take either, too.",
            )
        if location:
            contents = _open_store(kind, location, path, password, key_password)
            return contents if isinstance(contents, KeyStore) else [contents] * len(texts)
        if any(texts) and not all(texts):
            raise DocumentError(
                f"{path}: of {' and '.join(inline)} only one is set.", next="Set both."
            )
        named = zip(inline, texts, strict=True)
        return [_inline_pem(name, text, path) if text else None for name, text in named]

    trusted = store("ssl.truststore", "ssl.truststore.certificates")
    own = store("ssl.keystore", "ssl.keystore.key", "ssl.keystore.certificate.chain")
    identification = entries.pop("ssl.endpoint.identification.algorithm", "https").lower()
    if used and identification not in ("https", "none", ""):
        raise DocumentError(
            f"{path}: ssl.endpoint.identification.algorithm is {identification}.",
            next="It is https, or empty for brokers whose certificates have other names.",
        )
    (ca,) = [Pem(text=trusted.certificates)] if isinstance(trusted, KeyStore) else trusted
    key: Pem | None
    certificate: Pem | None
    if isinstance(own, KeyStore):
        key, certificate = Pem(text=own.key), Pem(text=own.certificates)
        key_password = own.key_password
    else:
        key, certificate = own
    return Tls(ca, certificate, key, key_password, identification == "https", path)


@contextmanager
def _certificate_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, ssl.SSLError, ValueError) as error:
        raise DocumentError(
            f"A certificate or key cannot be loaded: {error}.",
            next="Check the stores that the client properties name (--command-config).",
        ) from error


def _inline_pem(name: str, text: str, properties: Path) -> Pem:
    """Return a PEM of the properties, with blanks or line ends; no error shows anything of it."""
    try:
        return Pem(text=_pem_blocks(text))
    except ValueError as error:
        raise DocumentError(
            f"{properties}: {name} is not PEM: {error}.",
            next="Write \\n, or a blank and a backslash, at the end of each of its lines.",
        ) from error


def _pem_blocks(text: str) -> str:
    """Return a text's PEM blocks as OpenSSL reads them, with line ends where Kafka needs none."""
    blocks = []
    for begin, body, end in _BLOCK.findall(text):
        if ":" in body:  # a key that is encrypted as OpenSSL once did: its head is lines
            lines = [line.strip() for line in body.strip().split("\n")]
        else:
            data = re.sub(r"[ \t\n\v\f\r]+", "", body)
            if re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", data) is None:
                raise ValueError("what is between its BEGIN and END is not base64")
            lines = [data[at : at + _COLUMNS] for at in range(0, len(data), _COLUMNS)]
        blocks.append("\n".join((begin, *lines, end, "")))
    pem = "".join(blocks)
    if not pem:
        raise ValueError("there is no BEGIN with its END")
    if not pem.isascii():
        raise ValueError("a part of it is not ASCII")
    return pem


def _open_store(
    store: str, location: str, properties: Path, password: str | None, key_password: str | None
) -> Pem | KeyStore:
    """Return a store, as PEM where it is.

    Raises DocumentError for one that cannot be read, PasswordMissingError, WrongPasswordError.
    """
    content = read_named_file(properties, f"{store}.location", location)
    place = properties.absolute().parent / location
    if _PEM not in content and not is_key_store(content):
        raise DocumentError(
            f"{properties}: {store}.location {location} is neither PEM nor a store of Java's.",
            next="Give it as PEM, JKS or PKCS12.",
        )
    try:
        if _PEM in content:
            _pem_blocks(content.decode("latin-1"))
            return Pem(str(place))
        key_store = read_key_store(content, password, key_password)
    except StorePasswordError as error:
        if password is None:
            missing = MissingPassword(properties, f"{store}.password", f"the store {place}")
            raise PasswordMissingError(missing) from error
        raise WrongPasswordError(
            f"The password is not that of the store {place}.",
            next=f"Set {store}.password in the client properties (--command-config).",
        ) from error
    except ValueError as error:
        raise DocumentError(
            f"{properties}: {store}.location {location} is damaged: {error}.",
            next="Write the file anew, from whoever made it.",
        ) from error
    entries = key_store.key if store == "ssl.keystore" else key_store.certificates
    if not entries:
        what = "key" if store == "ssl.keystore" else "certificates"
        raise DocumentError(
            f"{properties}: {store}.location {location} holds no {what}.",
            next=f"`keytool -list -keystore {place}` shows what it holds.",
        )
    return key_store
