"""A pipeline is a job by app.class, by module:name, and as an object."""

import sys
from itertools import count

import pytest
from rigs.pipeline_rig import Surroundings, counting, totals

import samzapy
from samzapy.config.loader import load_job
from samzapy.container.tasks.task_builder import load_task_class
from samzapy.errors import ConfigError

CODE = """
from samzapy import Count, Pipeline

pipeline = Pipeline("views")
pipeline.stream("shop.views").key_by(lambda view: view["page"]).aggregate(views=Count()).to("shop.counts")
other = 5
"""
_numbers = count()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module with a pipeline in the present folder."""
    name = f"views_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


def job_file(folder, text):
    path = folder / "job.properties"
    path.write_text(text)
    return path


def test_app_class_stands_for_the_keys_of_its_pipeline(tmp_path, module):
    job = load_job(job_file(tmp_path, f"app.class={module}:pipeline"))
    assert (job.name, [str(each) for each in job.task.inputs]) == ("views", ["shop.views", "shop.views-by-page"])
    assert load_task_class(job.task.task_class) is sys.modules[module].pipeline.task


def test_keys_of_the_file_come_before_the_pipelines(tmp_path, module):
    text = f"app.class={module}:pipeline\njob.name=mine\nsystems.shop.samza.factory=kafka\ntask.commit.ms=7"
    job = load_job(job_file(tmp_path, text), {"task.window.ms": "9"})
    assert (job.name, job.task.commit_ms, job.task.window_ms) == ("mine", 7, 9)
    assert "Kafka" in job.systems["shop"].factory


def test_app_class_beside_a_task_class_has_no_effect(tmp_path, module):
    text = (
        f"app.class={module}:pipeline\ntask.class=a:B\ntask.inputs=shop.a\njob.name=n\nsystems.shop.samza.factory=local"
    )
    job = load_job(job_file(tmp_path, text))
    assert job.task.task_class == "a:B"
    assert any("app.class: has no effect in samzapy: task.class comes first" in each for each in job.warnings)


@pytest.mark.parametrize(
    ("name", "problem"),
    [("nothing", "has no nothing"), ("other", "expected a samzapy.Pipeline, got int; a task belongs into task.class")],
)
def test_an_app_class_without_a_pipeline_is_refused(tmp_path, module, name, problem):
    with pytest.raises(ConfigError, match=f"app.class.*{problem}"):
        load_job(job_file(tmp_path, f"app.class={module}:{name}"))


def test_a_pipeline_by_name_needs_no_file(tmp_path, module):
    job = load_job(f"{module}:pipeline", {"systems.shop.consumer.bootstrap.servers": "127.0.0.1:9092"})
    assert "Kafka" in job.systems["shop"].factory
    assert job.folder == tmp_path
    assert "Local" in load_job(f"{module}:pipeline").systems["shop"].factory


def test_containers_load_the_keys_without_the_pipeline(module):
    job = load_job(f"{module}:pipeline")
    assert "app.class" not in job.raw
    assert load_job(job.raw).streams == job.streams


def test_a_pipeline_object_runs_to_the_end_of_its_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipeline = counting("views", 2)
    around = Surroundings(pipeline, {"views-in": 2, "views-out": 1})
    around.write("views-in", [{"page": "a"}, {"page": "b"}, {"page": "a"}])
    outcome = samzapy.run(pipeline, runner="local", until_end=True, progress=False, job_name="mine")
    assert (outcome.status.name, outcome.status.processed) == ("mine", 5)  # the count of a, together
    assert totals(around.read("views-out")) == {"a": 2, "b": 1}


def test_records_between_steps_stay_until_a_commit_has_passed_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipeline = counting("views", 2)
    aged = {"systems.shop.default.stream.retention.ms": "60000"}  # the messages are years old
    around = Surroundings(pipeline, {"views-in": 2, "views-out": 1}, **aged)
    around.write("views-in", [{"page": "a"}, {"page": "b"}])
    samzapy.run(pipeline, runner="local", until_end=True, progress=False, **aged)
    assert {**around.settings("views-by-page"), "retention.ms": "-1"} == around.settings("views-by-page")
    assert around.read("views-by-page") == []
    assert all(oldest > 0 for oldest, _ in around.extent("views-by-page").values())
    assert all(oldest == 0 for oldest, _ in around.extent("views-in").values())
