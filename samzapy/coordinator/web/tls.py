"""Makes or loads the certificate of an HTTP port.

1. A run shows the user's certificate, or makes its own with a P-256 key. That key leaves the process only for the
   moment in which OpenSSL reads it, from a folder that is private to this user.
2. Clients check no signature. They pin the SHA-256 fingerprint, which they get together with the address, so a
   certificate needs no authority and no matching name.

`cryptography` makes the certificate. It is a mandatory dependency, because TLS is on by default for a remote master: an
extra would be missing on the first such run, and most images have no `openssl` command.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

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
        match = _CERTIFICATE.search(self.certificate)
        if match is None:
            raise ValueError("contains no PEM certificate")
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(match[0])).hexdigest()

    def context(self) -> ssl.SSLContext:
        """A server's context with this identity, for TLS 1.2 and newer. Raises ValueError if the key is not the
        certificate's."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # OpenSSL reads them only from files. The folder is private to this user.
        with tempfile.TemporaryDirectory(prefix="samzapy-tls-") as folder:
            certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
            certificate.write_text(self.certificate, encoding="ascii")
            key.touch(mode=0o600)
            key.write_text(self.key, encoding="ascii")
            try:
                # Without a password here, OpenSSL would ask on the terminal for the password of an encrypted key.
                context.load_cert_chain(certificate, key, password="")
            except ssl.SSLError as cause:
                reason = (
                    "does not belong to the certificate"
                    if "MISMATCH" in str(cause)
                    else "contains no PEM key, or one with a password"
                )
                raise ValueError(reason) from cause
        return context


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
