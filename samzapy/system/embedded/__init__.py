"""The common parts of the systems that run inside the process (`memory`, `local`).

A log here is described by `topic`, written through `pending` and `producer`, read through `consumer`; how its records
are kept is the business of `memory` and `local`, which implement `LogWriter` and `LogReader`.
"""
