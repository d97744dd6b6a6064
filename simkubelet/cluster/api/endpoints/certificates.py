"""Certificates of servers in this process: each server's own authority signs one, and both are not stored."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Certificates"]

_VALID: Final = timedelta(days=365)
# Clocks differ a little between machines and containers.
_EARLIER: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Certificates:
    """What a server needs to be trusted; PEM."""

    authority: bytes
    certificate: bytes
    key: bytes

    @classmethod
    def make(cls, name: str, address: str, *hosts: str) -> Certificates:
        """Make a certificate authority named as a real cluster's, and a certificate that it signs.

        Args:
            name: of the server, its common name.
            address: of this machine, where the server listens.
            hosts: other names by which clients reach it.
        """
        now = datetime.now(UTC)
        authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
        authority = (
            _builder(issuer, issuer, authority_key.public_key(), now)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        names = [x509.IPAddress(ipaddress.ip_address(address)), *map(x509.DNSName, hosts)]
        known_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
        server = (
            _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), issuer, server_key.public_key(), now)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(known_by, critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        key = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return cls(authority.public_bytes(pem), server.public_bytes(pem), key)

    def server_context(self) -> ssl.SSLContext:
        """TLS as the server speaks it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # The library reads certificates from files only.
        with tempfile.TemporaryDirectory(prefix="simkubelet-") as folder:
            path = Path(folder) / "server.pem"
            path.touch(mode=0o600)
            path.write_bytes(self.certificate + self.key)
            context.load_cert_chain(path)
        return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _VALID)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
