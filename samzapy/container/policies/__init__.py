"""Error policies: what a task does with a message that fails, where its job does not just fail with it.

A job without policies uses nothing from here: the strict decoder, collector and task instance are other classes, so a
policy costs what it costs only where it is asked for.
"""
