"""A table that each task has whole."""

from collections import Counter

import pytest
from rigs.pipeline_rig import Surroundings

import samzapy
from samzapy.config.loader import load_job, with_every_partition
from samzapy.errors import ConfigError
from samzapy.pipeline import Pipeline
from samzapy.testing.pipeline import PipelineDriver


def joining(broadcast=False):
    pipeline = Pipeline("orders")
    if broadcast:
        rows = pipeline.stream("shop.products").broadcast()
        rows.process(lambda row, handle: handle.send(row["name"])).to("shop.seen")
        products = rows.to_table()
    else:
        products = pipeline.table("shop.products", everywhere=True)
    orders = pipeline.stream("shop.orders")
    orders.join(products, lambda order, row: [order["id"], row["name"]], on=lambda order: order["product"]).to(
        "shop.out"
    )
    return pipeline


@pytest.mark.parametrize("broadcast", [False, True])
def test_each_task_finds_rows_of_all_partitions(broadcast):
    with PipelineDriver(joining(broadcast), partitions={"products": 3, "orders": 2}) as driver:
        for number in range(6):
            driver.send("products", {"name": f"n{number}"}, key=f"p{number}", partition=number % 3)
        for number in range(6):
            driver.send("orders", {"id": number, "product": f"p{number}"}, partition=number % 2)
        assert sorted(driver.outputs("out").messages) == [[number, f"n{number}"] for number in range(6)]


def test_a_start_reads_the_table_before_what_is_joined_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipeline = joining()
    around = Surroundings(pipeline, {"products": 3, "orders": 2, "out": 1})
    around.write("orders", [{"id": number, "product": f"p{number}"} for number in range(60)])
    around.write("products", [{"product": f"p{number}", "name": f"n{number}"} for number in range(60)], key="product")
    samzapy.run(pipeline, runner="local", until_end=True, progress=False)
    assert sorted(message for _, message in around.read("out")) == [[number, f"n{number}"] for number in range(60)]


@pytest.mark.parametrize("guarantee", ["exactly-once", "effectively-once", "at-least-once"])
def test_a_broadcast_message_reaches_each_task_once_in_a_bounded_run(tmp_path, monkeypatch, guarantee):
    monkeypatch.chdir(tmp_path)
    pipeline = joining(broadcast=True)
    around = Surroundings(pipeline, {"products": 3, "orders": 2, "out": 1, "seen": 1})
    options = {"runner": "local", "until_end": True, "progress": False, "task_guarantee": guarantee}
    around.write("products", [{"product": f"p{number}", "name": f"n{number}"} for number in range(60)], key="product")
    samzapy.run(pipeline, **options)
    assert Counter(message for _, message in around.read("seen")) == {f"n{number}": 3 for number in range(60)}
    around.write("orders", [{"id": number, "product": f"p{number}"} for number in range(60)])
    samzapy.run(pipeline, **options)
    assert sorted(message for _, message in around.read("out")) == [[number, f"n{number}"] for number in range(60)]


def test_all_partitions_are_written_out_for_containers():
    job = load_job({**joining().plan.keys({}), "task.class": "a:B"})
    (stream,) = {ssp.system_stream for ssp in job.task.broadcast_inputs}
    resolved = with_every_partition(job, {stream: 3})
    assert load_job(resolved.raw).task.broadcast_inputs == resolved.task.broadcast_inputs
    assert sorted(map(str, resolved.task.broadcast_inputs)) == [f"shop.products[{number}]" for number in range(3)]


def test_a_broadcast_entry_of_no_form_names_the_forms():
    with pytest.raises(ConfigError, match=r"expected system.stream#3, system.stream#\[0-2\] or system.stream#\*"):
        load_job({**joining().plan.keys({}), "task.class": "a:B", "task.broadcast.inputs": "shop.products#x"})
