"""Java's key and trust stores, JKS and PKCS12, as PEM; a private key never leaves them plain.

JKS is read here: it is small, has not changed since 2004, and no library that reads it is kept.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

JKS_MAGIC = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC = b"\xce\xce\xce\xce"
PKCS12_START = b"\x30"
_SUN_KEY = bytes.fromhex("2b060104012a02110101")
"""The object identifier of the way in which JKS keeps keys: 1.3.6.1.4.1.42.2.17.1.1."""
_SALT = 20
_DIGEST_WORDS = b"Mighty Aphrodite"
_KEY, _CERTIFICATE = 1, 2


class StorePasswordError(Exception):
    """A store wants a password, or another one than was given."""


@dataclass(frozen=True, slots=True)
class KeyStore:
    """What a store holds, as PEM: its certificates, or those of its first key, and that key."""

    certificates: str
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    """Of this process alone: the key has been encrypted anew with it."""


def is_key_store(content: bytes) -> bool:
    """Return whether a file may be a store of Java's, by how it begins."""
    return content.startswith((JKS_MAGIC, JCEKS_MAGIC, PKCS12_START))


def read_key_store(content: bytes, password: str | None, key_password: str | None) -> KeyStore:
    """Return what a store holds.

    Raises StorePasswordError without the right password, ValueError for what cannot be read.
    """
    if content.startswith(JCEKS_MAGIC):
        raise ValueError("it is a JCEKS store, and JKS and PKCS12 are what is read")
    if content.startswith(JKS_MAGIC):
        return _read_jks(content, password, key_password)
    return _read_pkcs12(content, password)


def _read_pkcs12(content: bytes, password: str | None) -> KeyStore:
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        bundle = load_pkcs12(content, None if password is None else password.encode())
    except ValueError as error:
        # It does not tell a wrong password from what is damaged, but for its words.
        if "password" in str(error).lower() or "mac" in str(error).lower():
            raise StorePasswordError from error
        raise
    held = [bundle.cert, *bundle.additional_certs]
    certificates = [
        entry.certificate.public_bytes(Encoding.DER) for entry in held if entry is not None
    ]
    return _build_key_store(certificates, bundle.key)


def _build_key_store(certificates: Sequence[bytes], key: Any) -> KeyStore:
    texts = "".join(_pem("CERTIFICATE", certificate) for certificate in certificates)
    if key is None:
        return KeyStore(texts)
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
    )

    password = secrets.token_urlsafe()
    encrypted = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())
    )
    return KeyStore(texts, encrypted.decode(), password)


def _pem(kind: str, der: bytes) -> str:
    coded = base64.b64encode(der).decode()
    lines = (coded[at : at + 64] for at in range(0, len(coded), 64))
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""))


# -- JKS ------------------------------------------------------------------------------------------


class _JavaDataReader:
    """Reads a store from its beginning, in Java's DataInput; raises ValueError where it is cut."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def take(self, count: int) -> bytes:
        chunk = self._content[self.at : self.at + count]
        if count < 0 or len(chunk) != count:
            raise ValueError("it is cut off")
        self.at += count
        return chunk

    def number(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def text(self) -> bytes:
        return self.take(int(struct.unpack(">H", self.take(2))[0]))

    def block(self) -> bytes:
        return self.take(self.number())


def _read_jks(content: bytes, password: str | None, key_password: str | None) -> KeyStore:
    reader = _JavaDataReader(content)
    reader.take(len(JKS_MAGIC))
    version = reader.number()
    if version not in (1, 2):
        raise ValueError(f"its version is {version}")
    trusted: list[bytes] = []
    first: tuple[bytes, list[bytes]] | None = None
    for _ in range(reader.number()):
        kind = reader.number()
        reader.text()  # the alias
        reader.take(8)  # when it was made
        if kind == _KEY:
            key = reader.block()
            chain = [_read_certificate(reader, version) for _ in range(reader.number())]
            first = first or (key, chain)
        elif kind == _CERTIFICATE:
            trusted.append(_read_certificate(reader, version))
        else:
            raise ValueError("it has an entry that is neither a key nor a certificate")
    if password is not None:
        words = password.encode("utf-16-be") + _DIGEST_WORDS + content[: reader.at]
        if hashlib.sha1(words, usedforsecurity=False).digest() != content[reader.at :]:
            raise StorePasswordError
    if first is None:
        return _build_key_store(trusted, None)
    given = password if key_password is None else key_password
    if given is None:
        raise StorePasswordError
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    return _build_key_store(first[1], load_der_private_key(_decrypt_key(first[0], given), None))


def _read_certificate(reader: _JavaDataReader, version: int) -> bytes:
    if version > 1:
        reader.text()  # its type, X.509
    return reader.block()


def _decrypt_key(encrypted: bytes, password: str) -> bytes:
    """Return a key in PKCS8 of an EncryptedPrivateKeyInfo of JKS's own kind."""
    sequence, _ = _split_der_element(encrypted)
    algorithm, rest = _split_der_element(sequence)
    identifier, _ = _split_der_element(algorithm)
    protected, _ = _split_der_element(rest)
    if identifier != _SUN_KEY:
        raise ValueError("its key is encrypted in a way that JKS does not have")
    salt, data, check = protected[:_SALT], protected[_SALT:-_SALT], protected[-_SALT:]
    words = password.encode("utf-16-be")
    stream, block = b"", salt
    while len(stream) < len(data):
        block = hashlib.sha1(words + block, usedforsecurity=False).digest()
        stream += block
    plain = bytes(a ^ b for a, b in zip(data, stream, strict=False))
    if hashlib.sha1(words + plain, usedforsecurity=False).digest() != check:
        raise StorePasswordError
    return plain


def _split_der_element(der: bytes) -> tuple[bytes, bytes]:
    """Return the content of the first element of DER, and what follows it."""
    reader = _JavaDataReader(der)
    reader.take(1)
    length = reader.take(1)[0]
    if length & 0x80:
        length = int.from_bytes(reader.take(length & 0x7F), "big")
    return reader.take(length), der[reader.at :]
