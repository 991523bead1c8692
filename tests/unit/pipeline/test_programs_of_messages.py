"""Programs without windows, as the documentation of Kafka Streams has them: messages, totals of keys, the user's
code."""

import pytest

from samzapy.operators.windows import Hopping, Sliding
from samzapy.pipeline import Collect, Count, Distinct, Max, Mean, Min, Pipeline, Sum, Top, Tumbling, field

START = 1_700_000_040_000


def test_branch_gives_each_message_to_the_first_that_fits(run):
    pipeline = Pipeline("p")
    even, large, rest = pipeline.stream("kafka.in").branch(
        lambda n: n % 2 == 0, lambda key, n: key < "b" and n > 2, str
    )
    even.to("kafka.even")
    large.to("kafka.large")
    rest.to("kafka.rest")
    flow = run(pipeline)
    for key, n in ("a", 1), ("a", 2), ("b", 3), ("a", 3), ("a", 4):
        flow.send("in", key, n)
    assert (flow.by_key("even"), flow.by_key("large")) == ({"a": [2, 4]}, {"a": [3]})
    assert flow.by_key("rest") == {"a": [1], "b": [3]}


def test_a_key_and_a_count_bring_equal_keys_together(run):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").key_by(field("page")).count().to("kafka.out")
    flow = run(pipeline)
    for user in ("ann", "bob", "eve"):
        flow.send("in", user, {"page": "/a"})
    assert flow.by_key("out") == {"/a": [1, 2, 3]}


def test_two_readers_of_a_new_key_share_its_stream(run):
    pipeline = Pipeline("p")
    by_page = pipeline.stream("kafka.in").key_by(lambda view: view["page"])
    by_page.count().to("kafka.counts")
    by_page.reduce(lambda one, two: {"page": one["page"], "n": one["n"] + two["n"]}).to("kafka.sums")
    flow = run(pipeline)
    flow.send("in", "ann", {"page": "/a", "n": 2})
    flow.send("in", "bob", {"page": "/a", "n": 3})
    assert flow.by_key("counts") == {"/a": [1, 2]}
    assert flow.by_key("sums") == {"/a": [{"page": "/a", "n": 2}, {"page": "/a", "n": 5}]}


def test_equal_fields_of_two_streams_are_two_repartitions(run):
    pipeline = Pipeline("p")
    for name in ("one", "two"):
        pipeline.stream(f"kafka.{name}").key_by(lambda view: view["page"]).count().to(f"kafka.{name}-counts")
    flow = run(pipeline)
    flow.send("one", "ann", {"page": "/a"})
    assert (flow.by_key("one-counts"), flow.by_key("two-counts")) == ({"/a": [1]}, {})


def test_two_repartitions_in_a_row_count_by_the_last_key(run):
    pipeline = Pipeline("p")
    views = pipeline.stream("kafka.in").key_by(field("page"))
    first = views.reduce(lambda _, new: new).changes()
    first.key_by(field("site")).count().to("kafka.out")
    flow = run(pipeline)
    flow.send("in", "ann", {"page": "/a", "site": "x"})
    flow.send("in", "bob", {"page": "/b", "site": "x"})
    assert flow.by_key("out") == {"x": [1, 2]}


def test_words_of_lines_count_by_word(run):
    pipeline = Pipeline("p")
    words = pipeline.stream("kafka.lines").flat_map(lambda line: line.lower().split())
    words.key_by(lambda word: word).count().to("kafka.out")
    flow = run(pipeline)
    flow.send("lines", "one", "all streams lead to Kafka")
    flow.send("lines", "two", "hello Kafka streams")
    counts = {key: rows[-1] for key, rows in flow.by_key("out").items()}
    assert counts == {"all": 1, "streams": 2, "lead": 1, "to": 1, "kafka": 2, "hello": 1}


def test_through_brings_messages_with_their_keys_to_another_step(run):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").through("again").map(lambda key, n: [key, n]).to("kafka.out")
    flow = run(pipeline)
    for key, n in (("a", 1), ("b", 2), ("a", 3)):
        flow.send("in", key, n)
    assert flow.by_key("out") == {"a": [["a", 1], ["a", 3]], "b": [["b", 2]]}


def test_merged_streams_of_two_kinds_are_one_total(run):
    """What Kafka Streams calls a cogroup."""
    pipeline = Pipeline("p")
    clicks = pipeline.stream("kafka.clicks").map(lambda _: {"clicks": 1, "spent": 0})
    orders = pipeline.stream("kafka.orders").map(lambda price: {"clicks": 0, "spent": price})
    clicks.merge(orders).aggregate(clicks=Sum(field("clicks")), spent=Sum(field("spent"))).to("kafka.out")
    flow = run(pipeline)
    flow.send("clicks", "ann", "/a")
    flow.send("orders", "ann", 30)
    flow.send("clicks", "ann", "/b")
    assert [(each["clicks"], each["spent"]) for each in flow.by_key("out")["ann"]] == [(1, 0), (1, 30), (2, 30)]


def test_a_stream_as_a_table_has_its_newest_messages(run):
    pipeline = Pipeline("p")
    newest = pipeline.stream("kafka.in").key_by(field("user")).to_table()
    newest.filter(lambda view: view["page"] != "/").map_values(field("page")).to("kafka.out")
    flow = run(pipeline)
    for page in ("/a", "/", "/b"):
        flow.send("in", "x", {"user": "ann", "page": page})
    assert flow.by_key("out") == {"ann": ["/a", None, "/b"]}


def test_aggregate_has_every_part_by_its_name(run):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").aggregate(
        count=Count(), sum=Sum(), min=Min(), max=Max(), mean=Mean(), different=Distinct(), all=Collect(), top=Top(2)
    ).to("kafka.out")
    flow = run(pipeline)
    for n in (3, 1, 3, 5):
        flow.send("in", "a", n)
    assert flow.by_key("out")["a"][-1] == {
        "count": 4,
        "sum": 12,
        "min": 1,
        "max": 5,
        "mean": 3.0,
        "different": [3, 1, 5],
        "all": [3, 1, 3, 5],
        "top": [5, 3],
    }


@pytest.mark.parametrize(
    ("by", "passed"), [((), {"a": [1], "b": [1]}), ((lambda n: n,), {"a": [1, 2, "1"], "b": [1]})], ids=["key", "field"]
)
def test_deduplicate_passes_the_first_of_each_key_or_field(run, by, passed):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").deduplicate(*by).to("kafka.out")
    flow = run(pipeline)
    for key, n in (("a", 1), ("b", 1), ("a", 1), ("a", 2), ("a", "1")):
        flow.send("in", key, n)
    assert flow.by_key("out") == passed


def test_process_keeps_state_by_key_and_has_timers(run):
    def total(n, handle):
        handle.state.put(handle.key, (handle.state.get(handle.key) or 0) + n)
        handle.schedule(handle.time_ms + 5_000)

    def report(handle):
        handle.send(handle.state.get(handle.key))

    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").process(total, on_timer=report).to("kafka.out")
    flow = run(pipeline)
    flow.send("in", "a", 1, 0)
    flow.send("in", "a", 2, 4)
    flow.send("in", "b", 9, 4)
    flow.pass_time(8, "in")
    assert flow.by_key("out") == {}
    flow.pass_time(10, "in")
    assert flow.by_key("out") == {"a": [3], "b": [9]}


def test_null_messages_of_a_stream_are_left_out(run):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").count().to("kafka.out")
    flow = run(pipeline)
    for message in (1, None, 2):
        flow.send("in", "a", message)
    assert flow.by_key("out") == {"a": [1, 2]}


def test_a_map_that_returns_none_is_a_null_message_that_no_count_has(run):
    pipeline = Pipeline("p")
    numbers = pipeline.stream("kafka.in").map(lambda n: None if n < 0 else n)
    numbers.to("kafka.all")
    numbers.count().to("kafka.here")
    numbers.key_by(lambda key, _: key).count().to("kafka.there")
    numbers.key_by(lambda key, _: key).to_table().to("kafka.rows")
    flow = run(pipeline)
    for n in (1, 2, -1):
        flow.send("in", "a", n)
    assert flow.by_key("all") == {"a": [1, 2, None]}
    assert flow.by_key("here") == flow.by_key("there") == {"a": [1, 2]}
    assert flow.by_key("rows") == {"a": [1, 2, None]}


def test_outputs_and_lookups_of_a_batch_are_those_of_each_message(run):
    pipeline = Pipeline("p")
    numbers = pipeline.stream("kafka.in")
    small, large = numbers.branch(lambda n: n < 5, lambda _: True)
    large.to("kafka.all")
    small.to("kafka.all")
    numbers.join(numbers.count(), lambda n, count: [n, count]).to("kafka.out")
    flow = run(pipeline)
    flow.driver.send_batch("in", ["a"] * 3, [1, 7, 2])
    assert flow.by_key("all") == {"a": [1, 7, 2]}
    assert flow.by_key("out") == {"a": [[1, 1], [7, 2], [2, 3]]}


def test_keys_that_a_process_gives_come_together(run):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").process(lambda n, handle: handle.send(n, key="all")).count().to("kafka.out")
    flow = run(pipeline)
    for key in "abcd":
        flow.send("in", key, 1)
    assert flow.by_key("out") == {"all": [1, 2, 3, 4]}


def test_tuples_compare_with_those_of_before_a_restart(run):
    def pair(n):
        return "x", (n, "y")

    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").aggregate(least=Min(pair), most=Max(pair), all=Distinct(pair)).to("kafka.out")
    flow = run(pipeline)
    flow.send("in", "a", 1)
    flow.driver.restart()
    flow.send("in", "a", 2)
    flow.send("in", "a", 1)
    one, two = ["x", [1, "y"]], ["x", [2, "y"]]
    assert flow.by_key("out")["a"][-1] == {"least": one, "most": two, "all": [one, two]}


def test_whoever_changes_a_result_in_place_changes_no_total(run):
    def spoil(row):
        for items in row.values():
            items.append(-1)
        return len(row)

    pipeline = Pipeline("p")
    rows = pipeline.stream("kafka.in").aggregate(all=Collect(), top=Top(2), different=Distinct())
    rows.map_values(spoil)
    flow = run(pipeline)
    for n in (1, 2):
        flow.send("in", "a", n)
    stores = [flow.driver.store(rows.path, number).get("a") for number in flow.partitions]
    assert [row for row in stores if row] == [[[1, 2], [2, 1], [1, 2]]]


def add_in_place(one, two):
    one["n"] += two["n"]
    return one


@pytest.mark.parametrize(
    ("windows", "values"), [(Hopping("20s", "10s"), [6, 6]), (Sliding("20s"), [1, 3, 6])], ids=["hopping", "sliding"]
)
def test_a_reduce_in_place_changes_no_message(run, windows, values):
    pipeline = Pipeline("p")
    messages = pipeline.stream("kafka.in")
    messages.window(windows).reduce(add_in_place).to("kafka.out")
    messages.reduce(add_in_place).to("kafka.sums")
    messages.to("kafka.copy")
    flow = run(pipeline)
    times = [START + second * 1000 for second in (1, 2, 3)]
    flow.driver.send_batch("in", ["a"] * 3, [{"n": 1}, {"n": 2}, {"n": 3}], timestamps=times)
    flow.pass_time(100, "in", message={"n": 0})
    assert [each["value"]["n"] for each in flow.by_key("out")["a"]] == values
    assert flow.by_key("copy") == {"a": [{"n": 1}, {"n": 2}, {"n": 3}]}
    assert flow.by_key("sums")["a"][-1] == {"n": 6}


def test_branches_that_merge_keep_the_order_of_their_messages(run):
    pipeline = Pipeline("p")
    small, large = pipeline.stream("kafka.in").branch(lambda n: n < 5, lambda _: True)
    merged = large.map(lambda n: n * 10).merge(small)
    merged.to("kafka.all")
    merged.to_table(name="newest")
    flow = run(pipeline)
    flow.driver.send_batch("in", ["a"] * 4, [1, 7, 2, 8])
    assert flow.by_key("all") == {"a": [1, 70, 2, 80]}
    flow.driver.send_batch("in", ["a"] * 2, [9, 3])
    assert [row for row in (flow.driver.store("newest", n).get("a") for n in flow.partitions) if row] == [3]


def test_a_batch_brings_no_message_of_a_branch_too_late(run):
    pipeline = Pipeline("p")
    numbers = pipeline.stream("kafka.in")
    windows = numbers.merge(numbers.map(lambda n: -n)).window(Tumbling("10s"))
    windows.late().to("kafka.late")
    windows.count().to("kafka.out")
    flow = run(pipeline)
    times = [START + second * 1000 for second in (1, 100, 200)]
    flow.driver.send_batch("in", ["a"] * 3, [1, 2, 3], timestamps=times)
    flow.settle()
    assert [each["count"] for each in flow.by_key("out")["a"]] == [2, 2]
    assert flow.by_key("late") == {}
