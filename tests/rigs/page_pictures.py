"""Draws the pictures of docs/how-to/operate/page.md: `PYTHONPATH=tests python tests/rigs/page_pictures.py`."""

import shutil
from dataclasses import replace
from pathlib import Path

from jobs.job_status import NOON_MS, job_that_skips, six_hours, skipped, working, working_job
from jobs.served_page import OneKey, Shown, served_page
from playwright.sync_api import sync_playwright

from samzapy.coordinator import views
from samzapy.coordinator.status import ContainerFailure
from samzapy.coordinator.wire import JobSpec
from samzapy.job.lease import PartitionLag, Stall
from samzapy.job.planner import JobModel
from samzapy.pipeline import Count, Pipeline, Tumbling, field

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
VIEWS = Pipeline("page-views")
BY_PAGE = VIEWS.stream("kafka.in").filter(lambda view: not view["bot"]).key_by(field("page"))
BY_PAGE.window(Tumbling("1m")).aggregate(views=Count()).to("kafka.page-view-counts")
STACK = '  File "/opt/shop/tasks.py", line 31, in process\n    prices = self.service.get(message["sku"])'


def behind(number, partitions, lag, age_ms, **more):
    lags = {f"kafka.in[{each}]": PartitionLag(1_234_567, 1_234_567 + lag, lag, age_ms) for each in partitions}
    return working(number, partitions, lags=lags, **more)


def stuck():
    stall = Stall("in process of kafka.in[3]@1234567", 90.0, STACK)
    each = working(0, range(2)), behind(1, range(2, 4), 12_000, 91_000), behind(2, range(4, 6), 3, 500)
    handled = tuple(skipped(1_200_000 + number, 900.0 - 20 * number) for number in range(3))
    containers = (*each[:1], replace(each[1], stalled=stall), *each[2:])
    return working_job(*containers, handled=handled, counts={"errors.process.skipped": 3})


def without_broker():
    silent = {"lags": None, "stalled": Stall("broker unreachable", 47.0), "measured_at": 48.0}
    failure = ContainerFailure("0", 1, "Unreachable", "kafka: broker-2:9092 does not answer", 3)
    return working_job(*(working(number, [number], **silent) for number in range(3)), failures=(failure,), failed=1)


def later(status, seconds):
    """The status of some seconds later: the containers that are not stuck have gone on."""

    def moved(each):
        goes = 0 if each.stalled else seconds
        positions = {name: at + 700 * goes for name, at in each.positions.items()}
        return replace(each, processed=each.processed + 1_400 * goes, positions=positions)

    return replace(status, seconds=status.seconds + seconds, containers=tuple(map(moved, status.containers)))


def growing(second):
    return 40 if second < -420 else 40 + 57 * (second + 420)


def main():
    steps = VIEWS.plan.picture
    pages = {
        "page": (working_job(), lambda _: 16, 1440, "light"),
        "page-phone": (job_that_skips(), lambda _: 16, 390, "light"),
        "page-dark": (working_job(behind(0, range(2), 12_000, 61_000)), growing, 1440, "dark"),
        "page-stuck": (stuck(), growing, 1440, "light"),
        "page-broker": (without_broker(), growing, 1440, "light"),
    }
    views.PACE_S = 0.1
    with sync_playwright() as tools:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = tools.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for name, (status, lag_of, width, scheme) in pages.items():
            shown, inspector = Shown(status, JobSpec(JobModel(()), {}), six_hours(lag_of)), OneKey()
            inspector.steps = steps
            with served_page(shown, inspector) as address:
                tab = browser.new_page(viewport={"width": width, "height": 1_000}, color_scheme=scheme)
                tab.clock.install(time=NOON_MS / 1000)
                tab.goto(address, wait_until="domcontentloaded")
                tab.locator("#charts polyline").first.wait_for()
                for seconds in range(2, 30, 2):
                    shown.shown = later(status, seconds)
                    tab.wait_for_timeout(200)
                    tab.clock.run_for(2_000)
                tab.screenshot(path=PICTURES / f"{name}.png", animations="disabled", full_page=False)
        browser.close()


if __name__ == "__main__":
    main()
