"""What keeps Python's own pauses short while a coordinator serves."""

import asyncio
import gc
import weakref

import pytest

from samzapy.coordinator.web import interpreter
from samzapy.coordinator.web.interpreter import ShortPauses


class Node:
    """Something that the collector looks at."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(interpreter, "_REST_S", 0.0)


def is_looked_at(node):
    return any(each is node for each in gc.get_objects())


def test_what_came_with_the_registrations_is_not_looked_at_any_more_until_the_end():
    async def run():
        registered = Node()
        pauses.note()
        pauses.note()
        assert is_looked_at(registered)
        await frozen(pauses)
        assert not is_looked_at(registered)
        return registered

    pauses = ShortPauses()
    registered = asyncio.run(run())
    pauses.end()
    assert is_looked_at(registered)
    assert gc.get_freeze_count() == 0


def test_garbage_that_was_frozen_is_collected_at_the_next_registrations(monkeypatch):
    monkeypatch.setattr(interpreter, "_PACE_S", 0.0)

    async def run():
        node = Node()
        node.itself = node
        gone = weakref.ref(node)
        pauses.note()
        await frozen(pauses)
        del node
        assert gone() is not None
        pauses.note()
        await frozen(pauses)
        assert gone() is None

    pauses = ShortPauses()
    asyncio.run(run())
    pauses.end()


def test_registrations_that_follow_soon_wait_for_their_turn():
    async def run():
        pauses.note()
        await frozen(pauses)
        late = Node()
        pauses.note()
        for _ in range(10):
            await asyncio.sleep(0)
        assert is_looked_at(late)

    pauses = ShortPauses()
    asyncio.run(run())
    pauses.end()


async def frozen(pauses):
    """Return when no freezing is due."""
    while pauses._due is not None:  # noqa: ASYNC110  # it is a timer
        await asyncio.sleep(0)
