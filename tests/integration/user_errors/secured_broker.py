"""A broker that wants TLS on one address, a client's certificate on another, a password on a third one, and denies what
it is told to deny, or all else."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import trustme
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings, create_all
from samzapy.devkafka import DevBroker, Listener
from samzapy.devkafka.broker import free_port
from samzapy.system.kafka import KafkaSystemFactory

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class SecuredBroker:
    """Users `alice` and `bob` have their names as passwords. Everything is allowed that `deny` has not denied; if
    `closed`, nothing but what `allow` has allowed."""

    def __init__(self, folder: Path, *, closed: bool = False):
        authority = trustme.CA()
        certificate = authority.issue_cert("localhost", "127.0.0.1")
        keys = folder / "broker.pem"
        keys.write_bytes(_pkcs8(certificate.private_key_pem.bytes()))
        for chained in certificate.cert_chain_pems:
            chained.write_to_path(keys, append=True)
        self.ca, self.other_ca = folder / "ca.pem", folder / "other-ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        trustme.CA().cert_pem.write_to_path(self.other_ca)
        self._folder, self._authority = folder, authority
        tls, mutual, sasl = free_port(), free_port(), free_port()
        self.tls, self.mutual, self.sasl = (f"127.0.0.1:{port}" for port in (tls, mutual, sasl))
        self._keys, self._closed = keys, closed
        self._broker = self._made("alice", "bob")

    def _made(self, *users: str) -> DevBroker:
        known = " ".join(f'user_{user}="{user}"' for user in users)
        tls, mutual, sasl = (int(address.rpartition(":")[2]) for address in (self.tls, self.mutual, self.sasl))
        return DevBroker(
            self._folder / "broker",
            tied=True,
            listeners=[
                Listener("TLS", "SSL", tls),
                Listener("MUTUAL", "SSL", mutual),
                Listener("PASSWORD", "SASL_PLAINTEXT", sasl),
            ],
            properties={
                "listener.name.mutual.ssl.keystore.type": "PEM",
                "listener.name.mutual.ssl.keystore.location": str(self._keys),
                "listener.name.mutual.ssl.truststore.type": "PEM",
                "listener.name.mutual.ssl.truststore.location": str(self.ca),
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.tls.ssl.keystore.type": "PEM",
                "listener.name.tls.ssl.keystore.location": str(self._keys),
                "listener.name.password.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.password.plain.sasl.jaas.config": f"{_PLAIN} {known};",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "allow.everyone.if.no.acl.found": str(not self._closed).lower(),
                "super.users": "User:ANONYMOUS",
            },
        )

    def __enter__(self):
        self.plain = self._broker.start()
        return self

    def __exit__(self, *exception):
        self._broker.stop()

    def restart_without(self, user: str | None = None) -> None:
        """Restart it; from now on it does not know the password of this user."""
        self._broker.stop()
        self._broker = self._made(*({"alice", "bob"} - {user}))
        self.plain = self._broker.start()

    def certificate(self, name: str, expiry: datetime | None = None) -> dict[str, str]:
        """The properties of a connection with a certificate of the client, for CN=name,OU=jobs,O=shop."""
        path = self._folder / f"{name}.pem"
        named = {"common_name": name, "organization_name": "shop", "organization_unit_name": "jobs"}
        issued = self._authority.issue_cert(f"{name}.example", **named, not_after=expiry)
        issued.private_key_and_cert_chain_pem.write_to_path(path)
        files = {"ssl.certificate.location": str(path), "ssl.key.location": str(path)}
        return {"security.protocol": "ssl", "ssl.ca.location": str(self.ca), **files}

    def fill(self, topics: Sequence[str], *values: bytes) -> None:
        """Make topics of one partition, and records in the first of them, as somebody who may."""
        settings = SystemSettings("kafka", "kafka", consumer={"bootstrap.servers": self.plain})
        admin, producer = KafkaSystemFactory().admin(settings, "a"), KafkaSystemFactory().producer(settings, "p")
        create_all(admin, [StreamSpec(name, 1) for name in topics])
        producer.send([OutgoingRecord(topics[0], b"k", value, 0) for value in values])
        producer.flush()
        assert admin.offsets([SystemStreamPartition("kafka", topics[0], 0)])
        producer.close()
        admin.close()

    def take_from(self, user: str, resource: ResourceType, name: str, operation: AclOperation) -> None:
        """Allow a user everything on what has this name but one operation."""
        self.allow(user, resource, name, AclOperation.ALL)
        self.deny(user, resource, name, operation)

    def deny(self, user: str, resource: ResourceType, name: str, operation: AclOperation = AclOperation.ALL) -> None:
        """Deny a user an operation on what has this name."""
        self._bind(user, resource, name, operation, AclPermissionType.DENY)

    def allow(
        self,
        user: str,
        resource: ResourceType,
        name: str,
        operation: AclOperation,
        pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    ) -> None:
        """Allow a user an operation on what has this name, or begins with it."""
        self._bind(user, resource, name, operation, AclPermissionType.ALLOW, pattern)

    def _bind(
        self,
        user: str,
        resource: ResourceType,
        name: str,
        operation: AclOperation,
        permission: AclPermissionType,
        pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    ) -> None:
        binding = AclBinding(resource, name, pattern, f"User:{user}", "*", operation, permission)
        client = AdminClient({"bootstrap.servers": self.plain})
        for answer in client.create_acls([binding]).values():
            answer.result(30)


def password(user: str, secret: str) -> dict[str, str]:
    """The properties of a connection with a password."""
    return {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": secret,
    }


def both_sides(connection: Mapping[str, str]) -> dict[str, str]:
    """The keys of a job whose consumers and producers have these properties."""
    return {
        f"systems.kafka.{side}.{key}": each for side in ("consumer", "producer") for key, each in connection.items()
    }


def _pkcs8(key: bytes) -> bytes:
    """The form of a private key that Java reads."""
    return load_pem_private_key(key, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
