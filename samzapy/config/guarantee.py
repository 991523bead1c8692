"""The four delivery guarantees of `task.guarantee`, and their requirements.

================  ===============================  =====================================================
guarantee         outputs after a crash            how
================  ===============================  =====================================================
at-most-once      none twice, some may be missing  positions are committed before their messages
at-least-once     none missing, some twice         outputs are acknowledged before the positions
effectively-once  none missing, twice by the same  outputs carry ids; receivers drop repetitions
                  id
exactly-once      none missing, none twice         outputs are in the transaction of the positions
================  ===============================  =====================================================

In all four, changelogs and checkpoints are one transaction where the system has transactions. `guarantee_warnings`
lists the settings that weaken a job's guarantee.
"""

from __future__ import annotations

from enum import Enum


class Guarantee(Enum):
    """The guarantee for outputs and positions after a crash."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EFFECTIVELY_ONCE = "effectively-once"
    EXACTLY_ONCE = "exactly-once"

    @property
    def transactional(self) -> bool:
        """Whether it cannot be kept without transactions."""
        return self in {Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE}

    @property
    def outputs_in_transaction(self) -> bool:
        """Whether outputs are part of the transaction, so that readers of committed records see each once."""
        return self is Guarantee.EXACTLY_ONCE

    @property
    def outputs_have_ids(self) -> bool:
        """Whether each output carries an id by which receivers drop repetitions."""
        return self is Guarantee.EFFECTIVELY_ONCE
