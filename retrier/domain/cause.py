"""Causes and failure groups: what failures have in common (ServiceControl: Recoverability/Grouping)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """All failures that one classifier gives the same title."""

    group_id: str
    classifier: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What failures have in common that differ in nothing which a classifier looks at.

    `fingerprint` is a hash of all of it but `exception_message`, which is the first one's.
    """

    fingerprint: str
    queue: str
    destination: str
    endpoint: str | None
    message_type: str | None
    exception_type: str | None
    failure_reason: str | None
    exception_message: str | None
    groups: tuple[FailureGroup, ...]
