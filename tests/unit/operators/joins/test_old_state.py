"""Joins go on from what a join of version 0.1.0 left: one entry of the index for each message that waits."""

from join_bench import LEFT, RIGHT, JoinBench

from samzapy.operators.joins import AsOfJoin, Joined, Side, StreamStreamJoin, Within


def left_behind(path, make, entries):
    bench = JoinBench(path, make)
    bench.opened.store.put_all(entries)
    bench.commit()
    bench.crash()
    return bench


def test_an_as_of_join_finds_the_messages_that_waited_one_by_one(tmp_path):
    entries = {
        "m|mem.left[1]": 12,
        "m|mem.left[3]": 12,
        "m|mem.right[1]": 12,
        f"due/{10:016d}/0{0:019d}/mem.right[1]": ["a", "first"],
        f"due/{11:016d}/1{1:019d}/mem.left[1]": ["a", "met"],
        f"due/{15:016d}/2a": True,
    }
    with left_behind(tmp_path, lambda made: AsOfJoin(made, "joined", (LEFT, RIGHT), 5), entries) as bench:
        bench.send(0, "a", 12, "new")
        bench.finish()
        assert bench.outputs == [
            Joined("a", Side(11, "met"), Side(10, "first")),
            Joined("a", Side(12, "new"), Side(10, "first")),
        ]


def test_a_stream_stream_join_finds_the_messages_that_waited_one_by_one(tmp_path):
    entries = {
        "m|mem.left[1]": 12,
        "m|mem.left[3]": 12,
        "m|mem.right[1]": 12,
        "key/1/a": [[[10, False, "lonely"], [11, True, "met"], [12, False, "waits"]], []],
        **{f"due/{time_ms + 5:016d}/0a": True for time_ms in (10, 11, 12)},
    }
    make = lambda made: StreamStreamJoin(made, "joined", (LEFT, RIGHT), Within(4, 5))  # noqa: E731
    with left_behind(tmp_path, make, entries) as bench:
        assert bench.contents()["within"] == [4, 5], "it did not know its interval"
        assert bench.send(2, "a", 17, "late partner") == [Joined("a", Side(12, "waits"), Side(17, "late partner"))]
        bench.send(0, "z", 40)
        bench.send(1, "z", 40)
        bench.send(2, "z", 41)
        bench.window()
        bench.finish()
        assert Joined("a", Side(10, "lonely"), None) in bench.outputs
        assert [joined for joined in bench.outputs if joined.key == "a"] == [Joined("a", Side(10, "lonely"), None)]
        assert not [key for key in bench.kept() if key.startswith(("due/", "key/"))]
