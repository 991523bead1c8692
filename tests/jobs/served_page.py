"""A page on loopback, and the status that it shows."""

import socket
from contextlib import contextmanager
from itertools import count
from math import ceil

from starlette.responses import JSONResponse
from starlette.routing import Route

from samzapy.coordinator.overview.history import History
from samzapy.coordinator.server import HttpServer
from samzapy.coordinator.views import Inspector, Record, views
from samzapy.errors import ConfigError, ConfigProblem

METRICS = {"store.counts.hits": 3, "store.counts.misses": 1, "store.counts.estimate-num-keys": 10}


class OneKey(Inspector):
    stores, streams, about_stores = ("counts",), ("kafka.in",), "Of its containers."
    steps = ()

    def entries(self, store, key, how="key"):
        if how != "key":
            return [Record(f"store {store}, {how}", f"{key}{n}", str(n)) for n in range(3)]
        if key == "wrong":
            raise ConfigError([ConfigProblem("key", "wrong", "expected <right>")])
        return [Record("store counts, partition 0", key, '{"views": 3}')] if key == "ann" else []

    def messages(self, stream, partition, start, key=None):
        return [Record(f"{stream}[{partition}]@{start}", key or "k", '"v"')]

    def log(self, container):
        return f"12:00:01 WARNING [container {container or 0}]: a <line>"


class Shown:
    """In place of a coordinator: what the page reads of it."""

    def __init__(self, status, spec, history=None):
        self.shown, self.spec = status, spec
        self.history, self.links = history or History(), {"Spark": "http://127.0.0.1:4040"}

    def status(self):
        return self.shown

    def process(self, container_id):
        return None


@contextmanager
def served_page(shown, inspector=None):
    """The URL of the page, while it is served without a guard."""

    inspector, polls = inspector or OneKey(), count(1)

    def snapshot(_):
        # At most two seconds in a step, within the ten seconds between two looks of a page at a container.
        spent = 2.0 * ceil(next(polls) / len(shown.status().containers))
        of_steps = {step["name"]: spent * (1 + at % 3) / 3 for at, step in enumerate(inspector.steps)}
        return JSONResponse({"Partition 0": METRICS, "Partition 1": METRICS, "pipeline": of_steps})

    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    routes = [Route("/containers/{id}/snapshot", snapshot)]
    server = HttpServer(views(shown, inspector, routes), {listening: None}, "page")
    try:
        yield url
    finally:
        server.close()
