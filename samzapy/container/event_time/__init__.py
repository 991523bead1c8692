"""A task's event time: one clock, fed by partitions and by the senders of intermediate streams.

clock              EventClock: the marks, the idle rule, and why a timer does not fire
senders            adds up the watermarks and ends of the senders of one partition
control_messages   the records that carry watermarks, ends and drains between jobs
timers             fires a task's timers by the clock
"""
