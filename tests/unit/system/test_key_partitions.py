import random

import pytest

from samzapy.system.base import KeyHashes, murmur2, partition_of

#: Java's values, from the tests of Kafka's client.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", JAVA)
def test_hashes_are_javas(key):
    assert murmur2(key) == JAVA[key] & 0xFFFFFFFF


def test_a_partition_is_the_positive_hash_modulo_the_partitions():
    assert partition_of(b"21", 1000) == (-973932308 & 0x7FFFFFFF) % 1000


def test_a_long_key_hashes_like_its_words():
    key = bytes(range(256)) * 5
    assert murmur2(key) == murmur2(bytearray(key))
    assert murmur2(key) != murmur2(key[:-1])


def test_cached_hashes_are_the_hashes():
    rng = random.Random(7)
    keys = [rng.randbytes(rng.randrange(0, 300)) for _ in range(500)]
    hashes = KeyHashes(limit=50)
    for _ in range(3):
        for key in keys:
            assert hashes[key] % 12 == partition_of(key, 12)


def test_the_cache_is_bounded_and_leaves_long_keys_out():
    hashes = KeyHashes(limit=10)
    for number in range(1000):
        assert hashes[b"%d" % number] == murmur2(b"%d" % number) & 0x7FFFFFFF
    assert len(hashes) <= 10
    size = len(hashes)
    assert hashes[b"x" * 257] == murmur2(b"x" * 257) & 0x7FFFFFFF
    assert len(hashes) == size
