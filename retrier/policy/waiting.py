"""What is decided without policies: failures are classified, and every message waits for a person."""

from retrier.policy.judging import Judge
from retrier.policy.policy_set import PolicySet

_NOTHING_SET = PolicySet()

WAITING = Judge(in_force=lambda: _NOTHING_SET, dice=lambda: 0.0)
"""The policies of settings that have none."""
