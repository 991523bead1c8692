"""The workloads. Each is made ready once on a broker; its variants are then run in turns, each run in a process of its
own."""
