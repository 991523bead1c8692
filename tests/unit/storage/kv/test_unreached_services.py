"""A store with a serde that needs a service, such as a schema registry."""

import pytest

from samzapy.errors import Unreachable
from samzapy.serializers import JsonSerde, StringSerde
from samzapy.storage.kv.codec import EntryCodec


class WithoutService(JsonSerde):
    def to_bytes(self, value):
        raise Unreachable("registry: does not answer")

    def from_bytes(self, data):
        raise Unreachable("registry: does not answer")


@pytest.fixture
def codec():
    return EntryCodec("totals", StringSerde(), WithoutService())


@pytest.mark.parametrize(
    "call",
    [
        lambda codec: codec.encode_value("a", {}),
        lambda codec: codec.encode_values(["a", "b"], [{}, None], True),
        lambda codec: codec.decode_value("a", b"{}"),
        lambda codec: codec.decode_values(["a"], [b"{}"]),
    ],
)
def test_a_service_that_a_serde_does_not_reach_is_no_fault_of_a_value(codec, call):
    with pytest.raises(Unreachable, match=r"^registry: does not answer$"):
        call(codec)
