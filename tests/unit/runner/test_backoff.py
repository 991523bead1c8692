from samzapy.runner.spark.backoff import Backoff


def test_delays_double_up_to_the_longest():
    backoff = Backoff(limit=8, first_s=1.0, longest_s=30.0)
    assert [backoff.after(0) for _ in range(8)] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_it_gives_up_after_the_limit():
    backoff = Backoff(limit=2, first_s=1.0, longest_s=30.0)
    assert [backoff.after(5) for _ in range(3)] == [1.0, 2.0, None]


def test_no_resubmission_at_all_when_the_limit_is_zero():
    assert Backoff(limit=0, first_s=1.0, longest_s=30.0).after(0) is None


def test_getting_further_than_before_starts_the_delays_over():
    backoff = Backoff(limit=2, first_s=1.0, longest_s=30.0)
    assert [backoff.after(at) for at in (10, 10, 20, 20, 20)] == [1.0, 2.0, 1.0, 2.0, None]


def test_getting_as_far_as_before_again_is_no_progress():
    backoff = Backoff(limit=3, first_s=1.0, longest_s=30.0)
    assert [backoff.after(at) for at in (10, 4, 10, 9)] == [1.0, 2.0, 4.0, None]
