"""Jobs from Python programs, in this process."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from jobs.page_view_job import page_view_job

import samzapy
from samzapy import StreamTask
from samzapy.cli import submission
from samzapy.cli.main import cli
from samzapy.config.supervision import LogConfig
from samzapy.container.supervision.logs import PageAddress, log_folder
from samzapy.errors import ConfigError, UnknownStream

DEADLINE_S = 60.0
PAGES = ["/a", "/b", "/a", "/c"]
PAIRS = {
    "job.name": "views",
    "job.default.system": "local",
    "systems.local.samza.factory": "local",
    "systems.local.default.stream.samza.offset.default": "oldest",
    "task.inputs": "local.views",
}


def command(*arguments, stdin=None):
    done = CliRunner().invoke(cli, list(arguments), input=stdin, prog_name="samzapy")
    assert done.exit_code == 0, done.output
    return done.stdout


def write(pages=PAGES):
    text = "".join(f'{page}\t{{"user": "u"}}\n' for page in pages)
    command("topic", "write", "local.views", "--job", "job.properties", stdin=text)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """An empty folder with the streams of the job, and its file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("job.properties").write_text(page_view_job("views"))
    for stream in ("views", "out"):
        command("topic", "create", f"local.{stream}", "--partitions", "2", "--job", "job.properties")
    write()
    return tmp_path


def test_a_job_file_runs_to_the_ends_of_its_inputs_and_again_in_the_same_process():
    outcome = samzapy.run("job.properties", until_end=True, runner="local")
    assert (outcome.status.processed, outcome.stopped) == (4, False)
    write()
    page = PageAddress(log_folder(LogConfig(), "views-1"))
    page.write("http://127.0.0.1:1/?token=of-a-run-that-was-killed")
    assert samzapy.run(Path("job.properties"), until_end=True, runner="local").status.processed == 4
    assert page.read() is None


def test_keys_and_a_class_that_no_module_has_make_a_job():
    seen = []

    class SeeingTask(StreamTask):
        def process(self, envelope, collector, coordinator):
            seen.append(envelope.key)

    assert samzapy.run(PAIRS, SeeingTask, until_end=True, runner="local").status.processed == 4
    assert sorted(seen) == sorted(page.encode() for page in PAGES)


def test_keywords_are_keys_with_underscores_for_dots_and_a_name_with_a_dot_is_a_key(monkeypatch):
    seen = []
    monkeypatch.setattr(submission, "launch", lambda config, *_, **options: seen.append(config))
    given = {"job.non-logged.store.base.dir": Path("other_place"), "job.page.port": 0}
    with (
        pytest.raises(AssertionError),
        samzapy.submit("job.properties", runner="local", task_commit_ms=1234, job_log_level="warning", **given),
    ):
        pass
    assert seen[0].task.commit_ms == 1234
    assert seen[0].resolved["job.log.level"] == "warning"
    assert seen[0].non_logged_store_base_dir == Path("other_place")


def test_every_problem_of_a_job_is_in_one_exception_and_nothing_ends_the_process():
    with pytest.raises(ConfigError) as caught:
        samzapy.run("job.properties", runner="local", task_inputs="nope.views", job_container_count=0)
    assert "job.container.count: expected an integer from 1 to 100000, got '0'" in str(caught.value).splitlines()
    assert len(caught.value.problems) == 2, str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"runner": "yarn"}, "runner: expected spark or local, got 'yarn'"),
        ({"runner": "local", "spark": object()}, "runner: a job with spark=... runs on Spark: leave one of them out"),
        ({"task": "views:Task"}, "task: expected a class, not an object"),
        ({"untilend": True}, "untilend: unknown option; did you mean until_end?"),
        ({"runner": "local", "job_x": {1}}, "job.x: expected text, a number, true or false, or a list"),
    ],
)
def test_a_wrong_argument_is_named(arguments, message):
    with pytest.raises(ConfigError) as caught:
        samzapy.submit("job.properties", **arguments)
    assert str(caught.value).startswith(message)


def test_a_module_that_runs_a_job_at_its_import_is_refused(place):
    (place / "running.py").write_text("import samzapy\nsamzapy.run('job.properties', runner='local')\n")
    with pytest.raises(ConfigError, match="do so below if __name__ == '__main__':"):
        samzapy.run("job.properties", runner="local", task_class="running:Task")


def test_what_is_found_after_the_start_is_raised_by_wait():
    running = samzapy.submit("job.properties", runner="local", task_inputs="local.gone")
    with pytest.raises(UnknownStream, match="topic 'gone' does not exist"):
        running.wait()
    assert running.done
    assert repr(running) == "<RunningJob views: failed>"


def test_a_submitted_job_shows_its_status_and_stops_when_asked():
    running = samzapy.submit("job.properties", runner="local", job_page_port=0)
    with pytest.raises(TimeoutError, match="job 'views' has not ended within 0 s"):
        running.wait(0)
    running.stop()
    outcome = running.wait()
    assert outcome.stopped
    assert running.status == outcome.status
    assert running.page.startswith("http://127.0.0.1:")


def test_leaving_the_context_stops_the_job_and_an_error_of_the_body_is_not_hidden():
    class BrokenTask(StreamTask):
        def process(self, envelope, collector, coordinator):
            raise ValueError("broken")

    with samzapy.submit("job.properties", runner="local") as running:
        pass
    assert running.done
    with pytest.raises(KeyError), samzapy.submit("job.properties", BrokenTask, runner="local") as running:
        raise KeyError("of the body")
    assert running.done


@pytest.fixture
def usual_interrupt():
    """A command in the background of a shell starts with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("usual_interrupt")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_the_job_after_a_commit(number):
    sent = []

    class SignallingTask(StreamTask):
        def process(self, envelope, collector, coordinator):
            if not sent:
                sent.append(number)
                os.kill(os.getpid(), number)

    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    outcome = samzapy.run("job.properties", SignallingTask, runner="local")
    assert outcome.stopped
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.usefixtures("usual_interrupt")
def test_an_interrupt_before_the_wait_for_the_job_leaves_no_job_behind(monkeypatch):
    # The thread of the test before may still be on its way out.
    found, before, getsignal = [], threading.enumerate(), signal.getsignal

    def interrupted(number):
        found.extend(each for each in threading.enumerate() if each.name == "samzapy-views" and each not in before)
        monkeypatch.setattr(signal, "getsignal", getsignal)
        raise KeyboardInterrupt

    monkeypatch.setattr(signal, "getsignal", interrupted)
    with pytest.raises(KeyboardInterrupt):
        samzapy.run("job.properties", runner="local")
    (thread,) = found
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


def test_a_job_runs_from_any_thread_and_leaves_signals_alone():
    outcomes = []
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    run = lambda: outcomes.append(samzapy.run("job.properties", until_end=True, runner="local"))  # noqa: E731
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert [outcome.status.processed for outcome in outcomes] == [4]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_modules_beside_the_job_file_need_no_key(place, monkeypatch):
    code = place / "code"
    code.mkdir()
    (code / "limit_beside.py").write_text("LIMIT = 7\n")
    (code / "task_beside.py").write_text(
        "from limit_beside import LIMIT\nfrom samzapy import StreamTask\n\n\n"
        "class Task(StreamTask):\n    def process(self, envelope, collector, coordinator):\n        assert LIMIT == 7\n"
    )
    (code / "job.properties").write_text(page_view_job("beside", task__class="task_beside:Task"))
    assert samzapy.run("code/job.properties", until_end=True, runner="local").status.processed == 4
    assert "task_beside:Task" in command("check", "code/job.properties")


def test_a_second_job_with_modules_in_another_folder_is_refused(place):
    text = "import samzapy\n\n\nclass Task(samzapy.StreamTask):\n    def process(self, *arguments):\n        {}\n"
    for name, body in (("first", "pass"), ("second", "return")):
        (place / name).mkdir()
        (place / name / "task_of_both.py").write_text(text.format(body))
        (place / name / "job.properties").write_text(page_view_job(name, task__class="task_of_both:Task"))
    assert samzapy.run("first/job.properties", until_end=True, runner="local").status.processed == 4
    with pytest.raises(
        ConfigError, match=r"this process has the modules next to the job file in .*first, .*in another process"
    ):
        samzapy.run("second/job.properties", until_end=True, runner="local")
    again = "second/../first/job.properties"
    assert samzapy.run(again, until_end=True, runner="local").status.processed == 0
