"""Joins, as the documentation of Kafka Streams has them. Times are seconds behind START."""

import pytest

from samzapy.pipeline import Pipeline, Sum, TimeRules, Tumbling, Within


def pair(left, right):
    return [left, right]


def clicks_and_orders(run, how):
    pipeline = Pipeline("p")
    clicks, orders = pipeline.stream("kafka.clicks"), pipeline.stream("kafka.orders")
    clicks.join(orders, pair, within=Within("10s", "10s"), how=how, rules=TimeRules(lateness="20s")).to("kafka.out")
    flow = run(pipeline)
    flow.send("clicks", "a", "late click", 20)
    flow.send("clicks", "a", "click", 5)  # out of order
    flow.send("orders", "a", "order", 14)
    flow.send("clicks", "b", "click of b", 5)
    flow.send("orders", "c", "order of c", 5)
    flow.send("orders", "a", "far order", 50)
    flow.pass_time(200, "clicks", "orders")
    return {key: sorted(rows, key=str) for key, rows in flow.by_key("out").items()}


BOTH = [["click", "order"], ["late click", "order"]]
RESULTS = {
    "inner": {"a": BOTH},
    "left": {"a": BOTH, "b": [["click of b", None]]},
    "outer": {"a": [*BOTH, [None, "far order"]], "b": [["click of b", None]], "c": [[None, "order of c"]]},
}


@pytest.mark.parametrize("how", RESULTS)
def test_streams_join_within_a_time_in_any_order(run, how):
    assert clicks_and_orders(run, how) == RESULTS[how]


@pytest.mark.parametrize(
    ("within", "expected"),
    [(Within("10s", "10s"), [10, 14, 15, 20, 25, 26, 30]), (Within(0, "5s"), [20, 25]), (Within("5s", 0), [15, 20])],
)
def test_the_edges_of_a_join_belong_to_it(run, within, expected):
    pipeline = Pipeline("p")
    clicks, orders = pipeline.stream("kafka.clicks"), pipeline.stream("kafka.orders")
    clicks.join(orders, lambda _, second: second, within=within, rules=TimeRules(lateness="60s")).to("kafka.out")
    flow = run(pipeline)
    flow.send("clicks", "a", 0, 20)
    for second in (31, 30, 26, 25, 20, 15, 14, 10, 9):
        flow.send("orders", "a", second, second)
    flow.pass_time(200, "clicks", "orders")
    assert sorted(flow.by_key("out")["a"]) == expected


def test_a_message_without_a_partner_comes_when_none_can_follow(run):
    pipeline = Pipeline("p")
    clicks, orders = pipeline.stream("kafka.clicks"), pipeline.stream("kafka.orders")
    clicks.join(orders, pair, within=Within("10s", "10s"), how="left").to("kafka.out")
    flow = run(pipeline)
    flow.send("clicks", "a", "click", 5)
    flow.pass_time(15, "clicks", "orders")  # an order of second 15 may follow
    assert flow.by_key("out") == {}
    flow.pass_time(16, "clicks", "orders")
    assert flow.by_key("out") == {"a": [["click", None]]}


def test_null_messages_join_nothing(run):
    pipeline = Pipeline("p")
    clicks, orders = pipeline.stream("kafka.clicks"), pipeline.stream("kafka.orders")
    clicks.join(orders, pair, within=Within("10s", "10s"), how="outer").to("kafka.out")
    flow = run(pipeline)
    for stream, message in (("clicks", None), ("clicks", "click"), ("orders", None)):
        flow.send(stream, "a", message, 5)
    flow.pass_time(100, "clicks", "orders")
    assert flow.by_key("out") == {"a": [["click", None]]}


def test_views_count_by_the_region_of_their_users(run):
    pipeline = Pipeline("p")
    views, regions = pipeline.stream("kafka.views"), pipeline.table("kafka.regions")
    by_region = views.join(regions, lambda _, region: region).key_by(lambda region: region)
    by_region.window(Tumbling("10s")).count().to("kafka.out")
    flow = run(pipeline)
    for user, region in (("ann", "eu"), ("bob", "us"), ("eve", "eu")):
        flow.send("regions", user, region)
    flow.send("views", "ann", "/a", 1)
    flow.send("views", "eve", "/b", 2)
    flow.send("regions", "ann", "us", 3)
    flow.send("views", "ann", "/c", 4)
    flow.send("views", "nobody", "/d", 5)
    for second in (60, 120, 180):
        flow.pass_time(second, "views", "regions")
    assert {
        key: [each["count"] for each in rows][:1] for key, rows in flow.by_key("out").items() if key in "eu us"
    } == {"eu": [2], "us": [1]}


def test_a_row_of_a_table_that_is_everywhere_changes_no_earlier_result(run):
    pipeline = Pipeline("p")
    names = pipeline.table("kafka.names", everywhere=True)
    pipeline.stream("kafka.in").join(names, pair, on=lambda n: f"n{n}", how="left").to("kafka.out")
    flow = run(pipeline)
    for name in ("one", "uno", None):
        flow.send("names", "n1", name)
        flow.send("in", "a", 1)
    assert flow.by_key("out") == {"a": [[1, "one"], [1, "uno"], [1, None]]}


def test_a_stream_joins_itself(run):
    pipeline = Pipeline("p")
    numbers = pipeline.stream("kafka.in")
    small, large = numbers.branch(lambda n: n < 5, lambda n: n >= 5)
    small.join(large, pair, within=Within("10s", "10s")).to("kafka.out")
    flow = run(pipeline)
    for n, second in ((1, 0), (7, 5), (8, 30)):
        flow.send("in", "a", n, second)
    flow.pass_time(100, "in")
    assert flow.by_key("out") == {"a": [[1, 7]]}


def test_the_same_messages_on_two_ways_are_several_of_a_join(run):
    pipeline = Pipeline("p")
    numbers, prices = pipeline.stream("kafka.in"), pipeline.stream("kafka.prices")
    numbers.merge(numbers.map(lambda n: -n)).join_as_of(prices, pair).to("kafka.out")
    flow = run(pipeline)
    flow.send("prices", "a", 7, 0)
    flow.send("in", "a", 1, 1)
    flow.pass_time(100, "in", "prices")
    assert sorted(flow.by_key("out")["a"]) == [[-1, 7], [1, 7]]


def test_window_results_join_by_their_time(run):
    pipeline = Pipeline("p")
    views, clicks = pipeline.stream("kafka.views"), pipeline.stream("kafka.clicks")
    counts = views.window(Tumbling("10s")).count().filter(lambda result: result["count"] > 0)
    sums = clicks.window(Tumbling("10s")).aggregate(sum=Sum())
    counts.join(sums, lambda one, two: [one["count"], two["sum"]], within=Within(0, 0)).to("kafka.out")
    flow = run(pipeline)
    for second in (1, 2, 11):
        flow.send("views", "a", 1, second)
    for n, second in ((5, 3), (6, 12), (7, 13)):
        flow.send("clicks", "a", n, second)
    for second in (60, 120, 180):
        flow.pass_time(second, "views", "clicks")
    assert flow.by_key("out") == {"a": [[2, 5], [1, 13]]}


def test_as_of_finds_the_newest_that_is_not_younger(run):
    pipeline = Pipeline("p")
    trades, quotes = pipeline.stream("kafka.trades"), pipeline.stream("kafka.quotes")
    trades.join_as_of(quotes, pair, tolerance="20s", rules=TimeRules(lateness="10s")).to("kafka.out")
    flow = run(pipeline)
    flow.send("quotes", "a", 11, 5)
    flow.send("quotes", "a", 10, 0)  # out of order
    for n, second in ((1, 2), (2, 5), (3, 9), (4, 26)):
        flow.send("trades", "a", n, second)
    flow.pass_time(100, "trades", "quotes")
    assert flow.by_key("out") == {"a": [[1, 10], [2, 11], [3, 11], [4, None]]}


@pytest.mark.parametrize(
    ("how", "expected"), [("inner", [["u", 2], ["x", 3]]), ("left", [["t", None], ["u", 2], ["v", None], ["x", 3]])]
)
def test_a_stream_meets_the_present_row_of_a_table(run, how, expected):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").join(pipeline.table("kafka.rows"), pair, how=how).to("kafka.out")
    flow = run(pipeline)
    flow.send("in", "a", "t")
    flow.send("rows", "a", 2)
    flow.send("in", "a", "u")
    flow.send("rows", "a", None)
    flow.send("in", "a", "v")
    flow.send("rows", "a", 3)
    flow.send("in", "a", "x")
    assert flow.by_key("out") == {"a": expected}


#: Each change with what it gives: of the left or the right table, and None where it gives nothing at all.
CHANGES = [
    ("left", 1, None, [1, None], [1, None]),
    ("right", 2, [1, 2], [1, 2], [1, 2]),
    ("left", 3, [3, 2], [3, 2], [3, 2]),
    ("left", None, "gone", "gone", [None, 2]),
    ("right", None, None, None, "gone"),
    ("right", 4, None, None, [None, 4]),
    ("right", None, None, None, "gone"),
    ("left", None, None, None, None),
    ("left", 5, None, [5, None], [5, None]),
    ("right", 6, [5, 6], [5, 6], [5, 6]),
    ("right", None, "gone", [5, None], [5, None]),
]


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_tables_join_with_every_change_and_deletion(run, how):
    pipeline = Pipeline("p")
    left, right = pipeline.table("kafka.left"), pipeline.table("kafka.right")
    left.join(right, pair, how=how).to("kafka.out")
    flow = run(pipeline)
    for side, row, *_ in CHANGES:
        flow.send(side, "a", row)
    place = {"inner": 2, "left": 3, "outer": 4}[how]
    expected = [None if change[place] == "gone" else change[place] for change in CHANGES if change[place] is not None]
    assert flow.by_key("out") == {"a": expected}


def test_a_filtered_table_deletes_what_no_longer_fits(run):
    pipeline = Pipeline("p")
    left, right = pipeline.table("kafka.left"), pipeline.table("kafka.right")
    left.filter(lambda n: n > 0).map_values(lambda n: n * 10).join(right, pair).to("kafka.out")
    flow = run(pipeline)
    for side, row in (("right", 2), ("left", 1), ("left", -1), ("left", -2), ("left", 3)):
        flow.send(side, "a", row)
    assert flow.by_key("out") == {"a": [[10, 2], None, [30, 2]]}


def test_a_total_joins_a_table_and_its_changes_come_out(run):
    pipeline = Pipeline("p")
    counts = pipeline.stream("kafka.in").key_by(lambda key, _: key).count()
    counts.join(pipeline.table("kafka.names"), pair).to("kafka.out")
    flow = run(pipeline)
    for key in ("a", "b", "b"):
        flow.send("in", key, 0)
    flow.send("names", "a", "ann")
    flow.send("in", "a", 0)
    flow.send("names", "a", None)
    assert flow.by_key("out") == {"a": [[1, "ann"], [2, "ann"], None]}


@pytest.mark.parametrize("other", ["itself", "its filter"])
def test_a_table_that_joins_itself_deletes_its_rows(run, other):
    pipeline = Pipeline("p")
    rows = pipeline.table("kafka.rows")
    rows.join(rows if other == "itself" else rows.filter(lambda n: n > 0), pair).to("kafka.out")
    flow = run(pipeline)
    for row in (1, 2):
        flow.send("rows", "a", row)
        assert flow.by_key("out")["a"][-1] == [row, row]
    flow.send("rows", "a", None)
    assert flow.by_key("out")["a"][-1] is None


def orders_and_customers(run, how):
    pipeline = Pipeline("p")
    orders, customers = pipeline.table("kafka.orders"), pipeline.table("kafka.customers")
    orders.join(customers, lambda order, name: [order["n"], name], on=lambda order: order["c"], how=how).to("kafka.out")
    return run(pipeline)


def test_a_foreign_key_brings_a_customer_to_all_orders(run):
    flow = orders_and_customers(run, "inner")
    flow.send("orders", "o1", {"c": "x", "n": 1})
    flow.send("customers", "x", "ann")
    flow.send("orders", "o2", {"c": "x", "n": 2})
    flow.send("customers", "x", "anna")
    assert flow.by_key("out") == {"o1": [[1, "ann"], [1, "anna"]], "o2": [[2, "ann"], [2, "anna"]]}


def test_an_order_that_changes_its_customer_leaves_the_first(run):
    flow = orders_and_customers(run, "inner")
    flow.send("customers", "x", "ann")
    flow.send("customers", "y", "bob")
    flow.send("orders", "o1", {"c": "x", "n": 1})
    flow.send("orders", "o1", {"c": "y", "n": 1})
    flow.send("customers", "x", "anna")  # nobody's
    flow.send("orders", "o1", {"c": "z", "n": 1})  # there is no z
    assert flow.by_key("out") == {"o1": [[1, "ann"], [1, "bob"], None]}


def test_an_order_without_a_customer_has_no_result(run):
    flow = orders_and_customers(run, "inner")
    flow.send("customers", "x", "ann")
    flow.send("orders", "o1", {"c": None, "n": 1})
    flow.send("orders", "o1", {"c": "x", "n": 2})
    flow.send("orders", "o1", {"c": None, "n": 3})
    flow.send("customers", "x", "anna")
    assert flow.by_key("out") == {"o1": [[2, "ann"], None]}


def test_an_order_that_comes_back_has_a_result_again(run):
    flow = orders_and_customers(run, "inner")
    flow.send("customers", "x", "ann")
    for order in ({"c": "x", "n": 1}, None, {"c": "x", "n": 2}):
        flow.send("orders", "o1", order)
    flow.send("customers", "x", None)
    flow.send("customers", "x", "anna")
    assert flow.by_key("out") == {"o1": [[1, "ann"], None, [2, "ann"], None, [2, "anna"]]}


def test_a_customer_that_is_deleted_deletes_the_results_of_its_orders(run):
    flow = orders_and_customers(run, "inner")
    flow.send("customers", "x", "ann")
    flow.send("orders", "o1", {"c": "x", "n": 1})
    flow.send("customers", "x", None)
    flow.send("orders", "o1", None)
    assert flow.by_key("out")["o1"][:2] == [[1, "ann"], None]
    assert set(map(str, flow.by_key("out")["o1"][2:])) <= {"None"}


def test_a_left_join_by_foreign_key_keeps_orders_without_customers(run):
    flow = orders_and_customers(run, "left")
    flow.send("orders", "o1", {"c": "x", "n": 1})
    flow.send("customers", "x", "ann")
    flow.send("customers", "x", None)
    flow.send("orders", "o1", {"c": None, "n": 2})
    flow.send("orders", "o1", None)
    assert flow.by_key("out") == {"o1": [[1, None], [1, "ann"], [1, None], [2, None], None]}


def test_an_order_that_is_deleted_twice_takes_its_result_with_it(run):
    flow = orders_and_customers(run, "left")
    flow.send("orders", "o1", {"c": "x", "n": 1})
    for _ in range(2):
        flow.driver.post("orders", None, key="o1")
    flow.driver.run()
    flow.settle()
    assert flow.by_key("out") == {"o1": [[1, None], None]}


def test_an_answer_to_an_attempt_that_has_ended_is_dropped(run):
    """The order of two tables, or a lookup outside, may give a row another foreign key after a crash."""
    found = {"o1": "x"}
    pipeline = Pipeline("p")
    orders, customers = pipeline.table("kafka.orders"), pipeline.table("kafka.customers")
    of_customers = orders.map_values(lambda n: {"n": n, "c": found["o1"]})
    of_customers.join(customers, lambda order, name: [order["n"], name], on=lambda order: order["c"]).to("kafka.out")
    flow = run(pipeline)
    flow.send("orders", "o1", 1)
    flow.driver.crash()
    found["o1"] = "y"
    flow.driver.restart()
    flow.send("customers", "y", "bob")
    flow.send("customers", "x", "ann")  # the stream between the steps has the subscription of the first attempt
    assert flow.by_key("out") == {"o1": [[1, "bob"]]}
