from samzapy.runner.spark.backoff import Backoff


def test_delays_double_up_to_the_longest():
    backoff = Backoff(limit=8, first_s=1.0, longest_s=30.0)
    assert [backoff.after(5.0) for _ in range(8)] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_it_gives_up_after_the_limit():
    backoff = Backoff(limit=2, first_s=1.0, longest_s=30.0)
    assert [backoff.after(5.0) for _ in range(3)] == [1.0, 2.0, None]


def test_no_resubmission_at_all_when_the_limit_is_zero():
    assert Backoff(limit=0, first_s=1.0, longest_s=30.0).after(5.0) is None


def test_a_run_that_was_sound_for_long_starts_the_delays_over():
    backoff = Backoff(limit=2, first_s=1.0, longest_s=30.0)
    assert [backoff.after(lasted) for lasted in (5.0, 5.0, 300.0, 299.0, 5.0)] == [1.0, 2.0, 1.0, 2.0, None]
