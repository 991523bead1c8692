"""TLS of the coordinator: the certificate that it shows, and the handshakes of its connections.

1. A run shows a certificate of the user's own, or makes one for itself: a key on the curve P-256 that never leaves the process
   but for the moment in which OpenSSL reads it, from a folder that only this user opens.
2. Containers check no signature. They pin the SHA-256 fingerprint, which reaches them together with the address, so a
   certificate needs no authority and no matching name.
3. asyncio passes a TLS connection to its protocol after the handshake only, and allows a minute for that. So connections are
   accepted without TLS, count as strangers' from the start (`Handshake`), and have as much time as any stranger.

Measured on two busy cores, over keep-alive connections: TLS takes a fifth to a quarter more CPU for a heartbeat on both sides (server
940 us instead of 760), and a new connection with its handshake about 1.6 ms more on the server.

`cryptography` makes the certificate. It is installed with samzapy, since TLS is on by default where the master is remote: an
extra would be missing on the first such run, and an `openssl` command is not there in most images.
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

#: How long a certificate made for a run is valid: longer than any run. It begins a day early, for clocks that are late.
_VALID, _EARLY = timedelta(days=3_650), timedelta(days=1)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True)
class Identity:
    """A certificate with those that lead to its authority, and its key; both in PEM."""

    certificate: str
    key: str = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate, in 64 hexadecimal digits. Raises ValueError if there is none."""
        found = _CERTIFICATE.search(self.certificate)
        if found is None:
            raise ValueError("holds no certificate in PEM")
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(found[0])).hexdigest()

    def context(self) -> ssl.SSLContext:
        """The settings of a server with this identity, TLS 1.2 and newer. Raises ValueError if the key is another one's."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        # OpenSSL takes them from files only. The folder is this user's.
        with tempfile.TemporaryDirectory(prefix="samzapy-tls-") as folder:
            certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
            certificate.write_text(self.certificate, encoding="ascii")
            key.touch(mode=0o600)
            key.write_text(self.key, encoding="ascii")
            try:
                # An empty password, or OpenSSL would ask for that of an encrypted key on the terminal.
                made.load_cert_chain(certificate, key, password="")
            except ssl.SSLError as cause:
                reason = (
                    "is not the certificate's" if "MISMATCH" in str(cause) else "is no key in PEM without a password"
                )
                raise ValueError(reason) from cause
        return made


def made_for(host: str, now: datetime) -> Identity:
    """A new identity, signed by itself, for a coordinator at `host`: a name or an address."""
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
    """A connection until its TLS handshake is over; from then on the protocol that `serve` makes has it.

    asyncio computes a handshake in pieces as its bytes arrive, so a handshake that stops half-way blocks nothing. Until its end
    the connection is a stranger of `admission`, which closes it in time. A handshake that fails is not reported.
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
        # Not a byte may be read before TLS is there to read it.
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
            # No TLS, a wrong one, or the end of the connection.
            return
        finally:
            self._admission.leave(visit)
        # A connection that was aborted meanwhile may end without an error, and without a transport.
        if secured is None or self._lost:
            return
        served = self._serve()
        secured.set_protocol(served)
        served.connection_made(secured)
        for data in self._early:
            served.data_received(data)
