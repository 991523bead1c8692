"""Ends of transactions that no producer has asked for, written as a transaction coordinator writes them to a broker.

A coordinator that fails over sends what it is not sure of again, so a log may hold the end of a transaction twice, or
one without any records before it. `WriteTxnMarkers` (API key 27), version 1, is what it sends.
"""

import socket
import struct

_WRITE_TXN_MARKERS, _VERSION, _CORRELATION = 27, 1, 7
_NO_TAGS = b"\x00"


def _compact(data):
    return bytes([len(data) + 1]) + data


def _array(*entries):
    return bytes([len(entries) + 1]) + b"".join(entries)


def write_marker(bootstrap, topic, partition, producer_id, *, committed=True):
    """Append the end of a transaction of that producer to the partition. Raises AssertionError if it is refused."""
    host, _, port = bootstrap.rpartition(":")
    of_topic = _compact(topic.encode()) + _array(struct.pack(">i", partition)) + _NO_TAGS
    marker = struct.pack(">qh?", producer_id, 0, committed) + _array(of_topic) + struct.pack(">i", 0) + _NO_TAGS
    header = struct.pack(">hhi", _WRITE_TXN_MARKERS, _VERSION, _CORRELATION) + struct.pack(">h", -1) + _NO_TAGS
    request = header + _array(marker) + _NO_TAGS
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = connection.makefile("rb")
        (length,) = struct.unpack(">i", answer.read(4))
        body = answer.read(length)
    # The partition's error code is the last thing but the tags of partition, topic, producer and answer.
    (code,) = struct.unpack(">h", body[-6:-4])
    assert code == 0, f"{topic}[{partition}]: error code {code} in {body!r}"
