"""Failure groups: which failures look alike (ServiceControl: Recoverability/Grouping)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """All failures that one classifier gives the same title."""

    group_id: str
    classifier: str
    title: str
