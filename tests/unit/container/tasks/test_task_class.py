"""Methods that samzapy calls without their interface, and methods that look like them."""

from functools import partialmethod, wraps

import pytest

from samzapy import (
    ClosableTask,
    DrainListenerTask,
    EndOfStreamListenerTask,
    InitableTask,
    StreamTask,
    TimerTask,
    WatermarkListenerTask,
    WindowableTask,
)
from samzapy.container.tasks.task_builder import load_task_class
from samzapy.errors import ConfigError
from samzapy.plugins import path_of


class Base(StreamTask):
    def process(self, envelope, collector, coordinator):
        """Nothing."""


METHODS = {
    InitableTask: lambda self, context: None,
    ClosableTask: lambda self: None,
    WindowableTask: lambda self, collector, coordinator: None,
    EndOfStreamListenerTask: lambda self, collector, coordinator: None,
    DrainListenerTask: lambda self, collector, coordinator: None,
    WatermarkListenerTask: lambda self, time_ms, collector, coordinator: None,
    TimerTask: lambda self, key, time_ms, collector, coordinator: None,
}


def task_with(**methods):
    return type("Task", (Base,), methods)


@pytest.mark.parametrize("interface", METHODS, ids=lambda interface: interface.__name__)
def test_a_method_counts_without_its_interface_if_its_arguments_fit(interface):
    name, _ = interface.method()
    assert issubclass(task_with(**{name: METHODS[interface]}), interface)
    assert issubclass(task_with(**{name: lambda *arguments: None}), interface)
    assert not issubclass(task_with(**{name: lambda self, a, b, c, d, e, f: None}), interface)
    assert not issubclass(task_with(**{name: 3}), interface)
    assert not issubclass(Base, interface)


def refused(made):
    with pytest.raises(ConfigError) as caught:
        load_task_class(path_of(made))
    (problem,) = caught.value.problems
    return problem.message


@pytest.mark.parametrize(
    ("process", "takes"),
    [
        (lambda self, envelope: None, "(self, envelope)"),
        (lambda self, envelope, collector: None, "(self, envelope, collector)"),
        (lambda envelope, collector, coordinator: None, "(envelope, collector, coordinator)"),
        (lambda self, a, b, c, d: None, "(self, a, b, c, d)"),
        (lambda self, envelope, *, collector, coordinator: None, "(self, envelope, *, collector, coordinator)"),
    ],
)
def test_a_process_that_cannot_be_called_is_refused_with_what_it_takes(process, takes):
    made = type("Task", (StreamTask,), {"process": process})
    wanted = "process(envelope, collector, coordinator)"
    assert refused(made) == f"Task must define {wanted}; its process takes {takes}"


def with_a_connection(method):
    @wraps(method)
    def injecting(self, envelope, collector, coordinator):
        return method(self, envelope, collector, coordinator, "a connection")

    return injecting


@pytest.mark.parametrize(
    "process",
    [
        lambda *arguments: None,
        lambda self, envelope, collector, coordinator, extra=1: None,
        with_a_connection(lambda self, envelope, collector, coordinator, connection: None),
        staticmethod(lambda envelope, collector, coordinator: None),
        partialmethod(lambda self, mode, envelope, collector, coordinator: None, "fast"),
    ],
    ids=["any", "default", "decorated", "static", "partial"],
)
def test_a_process_that_can_be_called_is_accepted(process):
    made = type("Task", (StreamTask,), {"process": process})
    assert load_task_class(path_of(made)) is made


def a_generator(self, *arguments):
    yield


async def an_asynchronous_generator(self, *arguments):
    yield


@pytest.mark.parametrize("method", [a_generator, an_asynchronous_generator])
@pytest.mark.parametrize("name", ["process", "init", "window"])
def test_a_method_that_yields_is_refused_since_its_code_would_never_run(name, method):
    assert refused(task_with(**{name: method})) == (
        f"Task must not yield in {name}: a generator's code never runs here; send outputs with collector.send"
    )


async def a_coroutine(self, *arguments):
    """Nothing."""


@pytest.mark.parametrize("name", ["process", "init", "window", "on_timer"])
def test_a_coroutine_that_nothing_awaits_is_refused(name):
    assert refused(task_with(**{name: a_coroutine})) == (
        f"Task must not define {name} as a coroutine function: only a CoroutineTask's is awaited"
    )
