"""The task of `samzapy verify`, but it swallows an output now and then."""

from samzapy.verify.workload import AccountsTask


class ForgetfulTask(AccountsTask):
    def process(self, envelope, collector, coordinator):
        if envelope.message["id"] % 1000 != 999:
            super().process(envelope, collector, coordinator)
