"""Connections to a coordinator, without a client."""

import socket
from urllib.parse import urlsplit


def connect(service):
    address = urlsplit(service.url)
    return socket.create_connection((address.hostname, address.port))


def is_closed(connection):
    """Whether the other side closes it: at once, or within half a minute."""
    connection.settimeout(30)
    try:
        return connection.recv(1) == b""
    except ConnectionError:  # the other side had not read everything
        return True
