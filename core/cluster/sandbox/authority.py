"""A secured sandbox's authority: its certificates, and the key that tokens are signed with.

It signs what the sandbox needs as that is made, and its own key is never written.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core import files
from core.cluster.sandbox.nodes import (
    HOST,
    authority_file,
    certificate_file,
    jwks_file,
    token_key_file,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, ExtensionType

VALID = datetime.timedelta(days=365)
TOKEN_KEY_ID = "sandbox"


def write_certificates(root: Path, names: Sequence[str]) -> None:
    """Make an authority, and for each name a key and certificate that brokers and clients trust."""
    key = _new_key()
    authority = _sign_certificate("trimtab sandbox", key, None)
    files.write_text(authority_file(root), _pem(authority), durable=False)
    for name in names:
        own = _new_key()
        both = _private_pem(own) + _pem(_sign_certificate(name, own, (authority, key)))
        files.write_text(certificate_file(root, name), both, durable=False)


def write_token_key(root: Path) -> None:
    """Make the key that tokens are signed with, and what brokers check them with."""
    key = _new_key()
    files.write_text(token_key_file(root), _private_pem(key), durable=False)
    point = key.public_key().public_numbers()
    coordinates = {"x": base64url(point.x.to_bytes(32)), "y": base64url(point.y.to_bytes(32))}
    jwk = {"kty": "EC", "crv": "P-256", "kid": TOKEN_KEY_ID, "alg": "ES256", "use": "sig"}
    text = json.dumps({"keys": [jwk | coordinates]})
    files.write_text(jwks_file(root), text, durable=False)


def base64url(data: bytes) -> str:
    """Return bytes as the parts of a JSON Web Token are written."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _sign_certificate(
    name: str,
    key: EllipticCurvePrivateKey,
    by: tuple[Certificate, EllipticCurvePrivateKey] | None,
) -> Certificate:
    """Return a certificate of a key, by itself where it is the authority's."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer, signer = (subject, key) if by is None else (by[0].subject, by[1])
    now = datetime.datetime.now(datetime.UTC)
    is_authority = by is None
    extensions: list[tuple[ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=is_authority, path_length=None), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
        (
            x509.KeyUsage(
                digital_signature=not is_authority,
                key_cert_sign=is_authority,
                crl_sign=is_authority,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            True,
        ),
    ]
    if not is_authority:
        hosts = [x509.IPAddress(ipaddress.ip_address(HOST)), x509.DNSName("localhost")]
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        extensions.append((x509.SubjectAlternativeName(hosts), False))
        extensions.append((x509.ExtendedKeyUsage(uses), False))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + VALID)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(signer, hashes.SHA256())


def _pem(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _private_pem(key: EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
