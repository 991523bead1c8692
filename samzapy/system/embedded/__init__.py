"""The common parts of the systems that run inside the process (`memory`, `local`).

`topic` describes a log, `producer` writes it, `consumer` reads it. `memory` and `local` keep the records: they implement
`LogWriter` and `LogReader`.
"""
