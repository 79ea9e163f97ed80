"""The policies in force: read at the start, and again when their file changes."""

from collections.abc import Container, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path

from retrier.clock import Clock, SystemClock
from retrier.domain.values import dataclass
from retrier.errors import ConfigurationError
from retrier.events.event import Emit, ignore
from retrier.events.service import PoliciesRight, PoliciesTaken, PoliciesWrong
from retrier.policy.policy_set import Definition, InForce, PolicySet
from retrier.settings import (
    PoliciesSection,
    Settings,
    check_policies,
    find_section,
    load_policies,
    make_definition,
    name_settings_queues,
    read_text,
)

Stamp = tuple[int, int, int]
"""What changes when a file is written: time, size and inode."""
_NEVER: Stamp = (0, 0, 0)
_SECTION = "policies"
_NOTHING = Definition()
GONE = (
    "policies: is not in the file any more; those before it stay in force: "
    "to have none, write policies: {}"
)
"""What is told of a section that is gone while the service runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """Where policies come from, and what wins over them."""

    path: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    own_queues: Container[str] = frozenset()

    def read(self) -> PoliciesSection | None:
        """Read the section. Raises ConfigurationError."""
        return load_policies(self.path, self.environ, self.own_queues)

    def stamp(self) -> Stamp | None:
        """Look at the file; None if it is not there."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


class PolicySource:
    """Holds the set in force; `look` replaces it when the file has changed.

    One thread looks. Others call `current` at any time: they get the old set or the new one.
    """

    def __init__(
        self,
        section: PoliciesSection | None = None,
        file: PolicyFile | None = None,
        clock: Clock | None = None,
        emit: Emit = ignore,
    ) -> None:
        """Begin with a section that was read already; without a file it stays for ever."""
        self._file = file
        self._clock = clock or SystemClock()
        self._emit = emit
        # Not what the file looks like now: it may have changed since the section was read.
        self._seen: Stamp | None = _NEVER
        self._taken: Stamp | None = _NEVER
        stamp = None if file is None else file.stamp()
        self._in_force = self._make(section, stamp)

    @property
    def in_force(self) -> InForce:
        """The set in force, and where it comes from."""
        return self._in_force

    @property
    def may_change(self) -> bool:
        """Whether there is a file that is looked at again."""
        return self._file is not None

    def current(self) -> PolicySet:
        """Return the set by which to judge now."""
        return self._in_force.policies

    def text(self) -> str:
        """Return the section as it stands in the file now; empty without one."""
        if self._file is None:
            return ""
        try:
            return find_section(self._file.path.read_text(), _SECTION)
        except (OSError, ValueError):
            return ""

    def look(self) -> None:
        """Look at the file, and take it if it has changed and is not being written any more.

        Half a file may be a valid one, with fewer rules: messages would be judged by it. So a
        change counts once two looks have seen the same.
        """
        if self._file is None:
            return
        stamp = self._file.stamp()
        settled, self._seen = stamp == self._seen, stamp
        if settled and (stamp != self._taken or self._in_force.problems):
            self._take(self._file, stamp)

    def _take(self, file: PolicyFile, stamp: Stamp | None) -> None:
        try:
            section = file.read()
        except ConfigurationError as error:
            self._refuse(file, error.problems)
            return
        if file.stamp() != stamp:
            return  # it was replaced while it was read: the next look begins anew
        if section is None and self._in_force.policies.definition != _NOTHING:
            # More often a file that was lost or cut off than a wish to have no policies any more.
            self._refuse(file, (GONE,))
            return
        self._taken = stamp
        before, self._in_force = self._in_force, self._make(section, stamp)
        self._tell(before, file)

    def _refuse(self, file: PolicyFile, problems: tuple[str, ...]) -> None:
        if problems == self._in_force.problems:
            return
        self._in_force = replace(self._in_force, problems=problems)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        self._emit(PoliciesWrong(file=str(file.path), reason=f"{problems[0]}{more}"))

    def _make(self, section: PoliciesSection | None, stamp: Stamp | None) -> InForce:
        policies = PolicySet(None if section is None else make_definition(section))
        return InForce(
            policies=policies,
            is_configured=section is not None,
            loaded_at=self._clock.now(),
            file_time=None if stamp is None else datetime.fromtimestamp(stamp[0] / 1e9, UTC),
        )

    def _tell(self, before: InForce, file: PolicyFile) -> None:
        now = self._in_force
        told = {"file": str(file.path), "set_hash": now.policies.hash[:8]}
        if before.problems:
            self._emit(PoliciesRight(**told))
        elif (now.policies.hash, now.is_configured) != (
            before.policies.hash,
            before.is_configured,
        ):
            self._emit(PoliciesTaken(**told, rules=len(now.policies.definition.rules)))


def make_policy_source(
    settings: Settings, path: Path | None, environ: Mapping[str, str], clock: Clock, emit: Emit
) -> PolicySource:
    """Return the source of a service whose settings were read from this file."""
    queues = name_settings_queues(settings)
    file = None if path is None else PolicyFile(path=path, environ=environ, own_queues=queues)
    return PolicySource(settings.policies, file, clock, emit)


def read_policies(content: object, own_queues: Container[str]) -> PolicySet:
    """Return the set of what would be the section. Raises ConfigurationError."""
    return PolicySet(make_definition(check_policies(content, own_queues)))


def read_policy_text(text: str, own_queues: Container[str]) -> PolicySet:
    """Return the set of a text, of the section or of what stands below it.

    Raises ConfigurationError.
    """
    tree = read_text(text)
    content = tree[_SECTION] if isinstance(tree, dict) and _SECTION in tree else tree
    return read_policies({} if content is None else content, own_queues)
