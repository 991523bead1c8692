"""The page-view count on the local system, as a job file: in the current folder, on streams named by the test."""


def page_view_job(name, *, output="local.out", changelog="local.log", **keys):
    """The text of a job file; `keys` are added, `__` standing for a dot."""
    added = "".join(f"{key.replace('__', '.')}={value}\n" for key, value in keys.items())
    return f"""
job.name={name}
job.default.system=local
job.logged.store.base.dir=state
systems.local.samza.factory=local
systems.local.default.stream.samza.key.serde=string
systems.local.default.stream.samza.msg.serde=json
systems.local.default.stream.samza.offset.default=oldest
task.class=samzapy.examples.page_views:PageViewCountTask
task.inputs=local.views
page.views.output={output}
stores.counts.factory=rocksdb
stores.counts.key.serde=string
stores.counts.msg.serde=long
stores.counts.changelog={changelog}
{added}"""
