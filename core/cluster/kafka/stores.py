"""Key and trust stores, PEM here; for one of Java's formats, the line that converts it."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import DocumentError

_BLOCKS = re.compile(r"-----BEGIN [^-]+-----.*?-----END [^-]+-----\n?", re.DOTALL)
_JAVA = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PKCS12 = b"\x30"
_PEM = b"-----BEGIN "


@dataclass(frozen=True, slots=True)
class Pem:
    """A PEM text, in a file or inline."""

    location: str | None = None
    text: str | None = field(default=None, repr=False)

    def read(self) -> str:
        """Return the PEM blocks alone: what tools write beside them need not be ASCII."""
        text = self.text if self.text is not None else Path(self.location or "").read_text("utf-8")
        return "".join(_BLOCKS.findall(text)) or text


def pem(location: str | None, text: str | None) -> Pem | None:
    return Pem(location, None if location else text) if location or text else None


def find_store(store: str, location: str, properties: Path) -> str:
    """Return where a store is, a relative one beside the properties file.

    Not where the command runs: a run, and whatever else lives longer, has no such folder.
    Raises DocumentError for one that cannot be read or is no PEM file.
    """
    folder = properties.absolute().parent
    place = folder / location
    try:
        content = place.read_bytes()
    except OSError as error:
        raise DocumentError(
            f"{properties}: {store}.location {location} cannot be read: {error.strerror}.",
            next=f"Mend its permissions, or the path: it begins at {folder}, or with a slash.",
        ) from error
    if _PEM in content:
        return str(place)
    if content.startswith((*_JAVA, _PKCS12)):
        raise DocumentError(
            f"{properties}: {store}.location {location} is a Java key store; PEM is what is read.",
            next=_conversion(store, place, folder, jks=content.startswith(_JAVA)),
        )
    raise DocumentError(
        f"{properties}: {store}.location {location} is not a PEM file.",
        next=f"Give it as PEM and set {store}.type=PEM.",
    )


def _conversion(store: str, place: Path, folder: Path, *, jks: bool) -> str:
    result = folder / ("ca.pem" if store == "ssl.truststore" else "client.pem")
    then = f"then set {store}.location={result} and {store}.type=PEM."
    if store == "ssl.truststore":
        return f"Convert it: keytool -list -rfc -keystore {place} > {result}; {then}"
    if not jks:
        return f"Convert it: openssl pkcs12 -in {place} -nodes -out {result}; {then}"
    return (
        f"Convert it: keytool -importkeystore -srckeystore {place} -destkeystore client.p12 "
        f"-deststoretype PKCS12 && openssl pkcs12 -in client.p12 -nodes -out {result}; {then}"
    )


def load_key_pair(
    context: ssl.SSLContext, certificate: Pem, key: Pem, password: str | None
) -> None:
    """Load a client certificate; Python reads key pairs from files only, so inline ones pass by
    a private temporary folder."""
    import tempfile

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
        context.load_cert_chain(places[0], places[1], password)
