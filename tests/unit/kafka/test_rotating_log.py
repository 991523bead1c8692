"""The log of a development broker is rotated while the broker writes to it."""

import os
import threading

from samzapy.devkafka.rotating import rotate


def copied(folder, pieces, max_bytes, files):
    read, write = os.pipe()
    path = folder / "broker.log"
    thread = threading.Thread(target=rotate, args=(read, path, max_bytes, files))
    thread.start()
    for piece in pieces:
        os.write(write, piece)
    os.close(write)
    thread.join(30)
    os.close(read)
    return path


def test_a_log_keeps_every_line_until_it_is_full(tmp_path):
    path = copied(tmp_path, [b"one\n", b"two\n"], 1_000, 2)
    assert path.read_bytes() == b"one\ntwo\n"
    assert [found.name for found in tmp_path.iterdir()] == ["broker.log"]


def test_a_full_log_is_renamed_and_only_the_newest_files_are_kept(tmp_path):
    line = b"x" * 70_000 + b"\n"
    path = copied(tmp_path, [line] * 20, 100_000, 2)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["broker.log", "broker.log.1", "broker.log.2"]
    assert sum(found.stat().st_size for found in tmp_path.iterdir()) < 20 * len(line)
    for older in (path.with_name("broker.log.1"), path.with_name("broker.log.2")):
        assert older.read_bytes().endswith(b"x\n"), "no line is cut in two"


def test_a_log_goes_on_in_the_file_that_is_there(tmp_path):
    copied(tmp_path, [b"first start\n"], 1_000, 2)
    assert copied(tmp_path, [b"second start\n"], 1_000, 2).read_bytes() == b"first start\nsecond start\n"
