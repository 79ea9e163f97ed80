"""The section `access.approval`: what waits for a second person, and what cannot be meant."""

from datetime import timedelta
from pathlib import Path

import pytest

from retrier.domain.approval import ApprovalRules, ApprovedAct
from retrier.errors import ConfigurationError
from retrier.settings import load_settings


def rules_of(tmp_path: Path, approval: str) -> ApprovalRules | None:
    file = tmp_path / "retrier.yaml"
    file.write_text(f"access: {{approval: {approval}}}\n")
    access = load_settings(file, {}).access
    return None if access is None or access.approval is None else access.approval.rules


def test_a_number_waits_for_a_day(tmp_path: Path) -> None:
    assert rules_of(tmp_path, "{over: 1000}") == ApprovalRules(
        over=1000, lapses_after=timedelta(hours=24)
    )


def test_edits_are_read(tmp_path: Path) -> None:
    assert rules_of(tmp_path, "{for: [edit]}") == ApprovalRules(acts=frozenset({ApprovedAct.EDIT}))


def test_all_and_a_time_are_read(tmp_path: Path) -> None:
    found = rules_of(tmp_path, "{for: [all], lapses_after: 2h}")

    assert found == ApprovalRules(
        acts=frozenset({ApprovedAct.ALL}), lapses_after=timedelta(hours=2)
    )


@pytest.mark.parametrize(
    ("approval", "words"),
    [
        ("{}", "access.approval: lets nothing wait"),
        ("{lapses_after: 1h}", "access.approval: lets nothing wait"),
        ("{for: [all, erase]}", "access.approval.for[1]: must be one of: all, edit"),
        ("{for: [al]}", "access.approval.for[0]: must be one of: all, edit"),
        ("{over: -1}", "access.approval.over: must be between"),
        ("{over: 10, lapses_after: soon}", "access.approval.lapses_after: "),
        ("{ower: 10}", "access.approval.ower: "),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_path(
    tmp_path: Path, approval: str, words: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        rules_of(tmp_path, approval)

    assert words in str(refused.value)
