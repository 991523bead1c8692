"""A page on loopback, and the status that it shows."""

import socket
from contextlib import contextmanager

from starlette.responses import JSONResponse
from starlette.routing import Route

from samzapy.coordinator.server import HttpServer
from samzapy.coordinator.views import Inspector, Record, views
from samzapy.errors import ConfigError, ConfigProblem

METRICS = {"store.counts.hits": 3, "store.counts.misses": 1, "store.counts.estimate-num-keys": 10}


class OneKey(Inspector):
    stores, streams, about_stores = ("counts",), ("kafka.in",), "Of its containers."
    steps = ()

    def entries(self, store, key):
        if key == "wrong":
            raise ConfigError([ConfigProblem("key", "wrong", "expected <right>")])
        return [Record("store counts, partition 0", key, '{"views": 3}')] if key == "ann" else []

    def message(self, stream, partition, offset):
        return [Record(f"{stream}[{partition}]@{offset}", "k", '"v"')]


class Shown:
    """In place of a coordinator: what the page reads of it."""

    def __init__(self, status, spec):
        self.shown, self.spec = status, spec

    def status(self):
        return self.shown

    def process(self, container_id):
        return None


@contextmanager
def served_page(shown, inspector=None):
    """The URL of the page, while it is served without a guard."""

    def snapshot(_):
        return JSONResponse({"Partition 0": METRICS, "Partition 1": METRICS, "container": {"threads": 3}})

    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    routes = [Route("/containers/{id}/snapshot", snapshot)]
    server = HttpServer(views(shown, inspector or OneKey(), routes), {listening: None}, "page")
    try:
        yield url
    finally:
        server.close()
