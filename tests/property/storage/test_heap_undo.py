"""A bounded heap gives the same answers when messages among its pushes and pops are undone."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from samzapy.container.errors.undo_journal import UndoJournal
from samzapy.storage.views.heap import HeapStore
from samzapy.testing import open_store

CONFIG = {
    "job.name": "undo",
    "task.class": "some.module:Task",
    "task.inputs": "memory.in",
    "systems.memory.samza.factory": "memory",
    "stores.s.factory": "heap",
    "stores.s.base": "inmemory",
    "stores.s.object.cache.mode": "reference",
}
CALLS = st.one_of(
    st.tuples(st.just("push"), st.integers(0, 12), st.integers(0, 9)),
    st.tuples(st.just("push all"), st.integers(0, 12), st.integers(0, 9)),
    st.tuples(st.sampled_from(["pop", "remove"]), st.integers(0, 12), st.just(0)),
)
#: The calls of a message, whether it fails, and whether a new heap over the same store takes it.
MESSAGES = st.lists(st.tuples(st.lists(CALLS, max_size=6), st.booleans(), st.booleans()), max_size=40)
#: A new heap learns of its items in a message that has taken one out and fails.
LEARNS_AND_FAILS = [
    ([("push", 1, 5), ("push", 2, 6)], False, False),
    ([("remove", 1, 0), ("push", 3, 9), ("push", 4, 9)], True, True),
    ([("push", 1, 0)], False, False),
]


def pushes_of(item: int, score: int) -> list[tuple[int, int]]:
    """The batch of a call: items and scores."""
    return [(item + n, (score + 4 * n) % 10) for n in range(3)]


def model_of(held: dict[int, int], call: tuple[str, int, int], size: int) -> tuple[dict[int, int], object]:
    kind, item, score = call
    held = dict(held)
    if kind == "push all":
        answers = []
        for each in pushes_of(item, score):
            held, answer = model_of(held, ("push", *each), size)
            answers.append(answer)
        return held, answers
    if kind == "push":
        held[item] = score
        best = sorted(held, key=lambda each: (held[each], each), reverse=True)[:size]
        held = {each: held[each] for each in best}
        return held, item in held
    if kind == "remove":
        return held, held.pop(item, None) is not None
    best = sorted(held, key=lambda each: (held[each], each), reverse=True)[:1]
    return held, (best[0], held.pop(best[0])) if best else None


def done(heap: HeapStore, kind: str, item: int, score: int) -> object:
    if kind == "push":
        return heap.push(item, score)
    if kind == "push all":
        return heap.push_all(*zip(*pushes_of(item, score), strict=True))
    return heap.pop() if kind == "pop" else heap.remove(item)


@settings(max_examples=60)
@given(MESSAGES, st.integers(1, 4), st.integers(2, 3))
@example(LEARNS_AND_FAILS, 2, 2)
def test_undone_messages_leave_a_bounded_heap_as_it_was(tmp_path_factory, messages, size, block):
    with open_store(CONFIG, "s", tmp_path_factory.mktemp("s")) as opened:
        journal = UndoJournal()
        store = journal.watching(opened.stores.stores)["s"]
        heap = HeapStore(store, "s", size=size, block_size=block)
        now: dict[int, int] = {}
        for calls, fails, anew in messages:
            journal.begin()
            if anew:
                heap = HeapStore(store, "s", size=size, block_size=block)
            before = now
            for call in calls:
                now, answer = model_of(now, call, size)
                found = done(heap, *call)
                assert found == answer
            if fails:
                journal.undo()
                now = before
            assert [tuple(each) for each in heap.top(99)] == sorted(
                now.items(), key=lambda each: (each[1], each[0]), reverse=True
            )
