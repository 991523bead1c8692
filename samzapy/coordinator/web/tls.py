"""Secures the coordinator with TLS: makes or loads its certificate, and handles the handshakes of its connections.

1. A run shows the user's certificate, or makes its own with a P-256 key. That key leaves the process only for the
   moment in which OpenSSL reads it, from a folder that is private to this user.
2. Containers check no signature. They pin the SHA-256 fingerprint, which they get together with the address, so a
   certificate needs no authority and no matching name.
3. asyncio passes a TLS connection to its protocol only after the handshake, and allows a minute for it. So `Handshake`
   first accepts a connection without TLS: it is a stranger from the start, with the time limit of strangers.

Measured on two busy cores, over keep-alive connections: with TLS a heartbeat takes a fifth to a quarter more CPU on
both sides (server 940 us instead of 760), and a new connection with its handshake about 1.6 ms more on the server.

`cryptography` makes the certificate. It is a mandatory dependency, because TLS is on by default for a remote master: an
extra would be missing on the first such run, and most images have no `openssl` command.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import re
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from samzapy.coordinator.web.admission import Admission, Visit

#: The validity of a certificate made for a run, longer than any run. It begins a day early, for clocks that are slow.
_VALID, _EARLY = timedelta(days=3_650), timedelta(days=1)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True)
class Identity:
    """A certificate chain and its private key, both in PEM."""

    certificate: str
    key: str = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate, in 64 hexadecimal digits. Raises ValueError if there is none."""
        found = _CERTIFICATE.search(self.certificate)
        if found is None:
            raise ValueError("contains no PEM certificate")
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(found[0])).hexdigest()

    def context(self) -> ssl.SSLContext:
        """A server's context with this identity, for TLS 1.2 and newer. Raises ValueError if the key is not the
        certificate's."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        # OpenSSL reads them only from files. The folder is private to this user.
        with tempfile.TemporaryDirectory(prefix="samzapy-tls-") as folder:
            certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
            certificate.write_text(self.certificate, encoding="ascii")
            key.touch(mode=0o600)
            key.write_text(self.key, encoding="ascii")
            try:
                # Without a password here, OpenSSL would ask on the terminal for the password of an encrypted key.
                made.load_cert_chain(certificate, key, password="")
            except ssl.SSLError as cause:
                reason = (
                    "does not belong to the certificate"
                    if "MISMATCH" in str(cause)
                    else "contains no PEM key, or one with a password"
                )
                raise ValueError(reason) from cause
        return made


def made_for(host: str, now: datetime) -> Identity:
    """Make a self-signed identity for a coordinator at `host`, a name or an address."""
    # Only a run with TLS needs the library.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "samzapy coordinator")])
    try:
        place: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        place = x509.DNSName(host)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([place]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Identity(
        certificate.public_bytes(serialization.Encoding.PEM).decode("ascii"),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode("ascii"),
    )


class Handshake(asyncio.Protocol):
    """Handles a connection until its TLS handshake is over, and then passes it to the protocol that `serve` makes.

    asyncio processes a handshake as its bytes arrive, so one that stalls blocks nothing. Until it is complete, the
    connection is a stranger of `admission`, which closes it in time. A failed handshake is not reported.
    """

    def __init__(self, context: ssl.SSLContext, serve: Callable[[], asyncio.Protocol], admission: Admission) -> None:
        self._context = context
        self._serve = serve
        self._admission = admission
        self._early: list[bytes] = []
        self._lost = False
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        # No byte may be read before TLS reads it.
        transport.pause_reading()
        loop = asyncio.get_running_loop()
        visit = Visit(transport.abort, loop.time())
        self._admission.arrive(visit)
        self._task = loop.create_task(self._shake(transport, visit))

    def data_received(self, data: bytes) -> None:
        """Keep a request that came with the end of the handshake."""
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True

    async def _shake(self, transport: asyncio.Transport, visit: Visit) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(transport, self, self._context, server_side=True)
        except OSError:
            # The client speaks no TLS or an unsupported version, or has disconnected.
            return
        finally:
            self._admission.leave(visit)
        # If the connection was aborted meanwhile, start_tls may return None instead of raising.
        if secured is None or self._lost:
            return
        served = self._serve()
        secured.set_protocol(served)
        served.connection_made(secured)
        for data in self._early:
            served.data_received(data)
