"""The page about policies: its examples load, and its tables say what the code does."""

import re
from pathlib import Path

import pytest

from retrier.policy.classification import DEATHS, EXCEPTIONS, make_gateway_rules
from retrier.policy.delays import PRESETS
from retrier.policy.reasons import BUILT_IN, GATEWAY_CODES, NUMBERS
from retrier.settings import find_policy_warnings, load_settings, make_definition
from retrier.settings.policies import ReasonSection, RuleSection
from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "policies.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.+?)```", PAGE, re.DOTALL)
REASON = re.compile(r"^\| `(\w+)` \| (\d*) ?\| (.+) \|$", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")


def reasons() -> dict[str, tuple[str, str]]:
    section = PAGE.partition("## Reasons\n")[2].partition("\n\n**")[0]
    return {name: (number, words) for name, number, words in REASON.findall(section)}


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_is_right_and_nothing_is_warned_of(tmp_path: Path, text: str) -> None:
    path = tmp_path / "retrier.yaml"
    path.write_text(text)

    found = load_settings(path, {}).policies

    assert found is not None
    assert make_definition(found).rules
    assert list(find_policy_warnings(found)) == []


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


def test_every_reason_is_there_with_its_number() -> None:
    numbers = {name: number for name, (number, _) in reasons().items()}

    assert numbers == {name: str(NUMBERS.get(name, "")) for name in BUILT_IN}


def test_the_table_has_every_name_of_an_exception() -> None:
    told = {reason: set(CODE.findall(words)) for reason, (_, words) in reasons().items()}

    assert [(reason, globs) for reason, globs in EXCEPTIONS if not set(globs) <= told[reason]] == []


def test_the_table_has_every_word_of_rabbitmq() -> None:
    told = {reason: words for reason, (_, words) in reasons().items()}

    named = {word: f"`{word}` of RabbitMQ" in told[reason] for word, reason in DEATHS.items()}
    assert [word for word, is_named in named.items() if not is_named] == []


def test_every_code_and_name_of_the_gateway_is_there() -> None:
    section = PAGE.partition("**The set `gateway`**")[2].partition("\n## ")[0]
    known = {glob for rule in make_gateway_rules() for glob in (*rule.exception, rule.reason)}

    assert (known | set(GATEWAY_CODES)) - set(CODE.findall(section)) == set()


def test_every_preset_is_there() -> None:
    assert [name for name in PRESETS if f"| `{name}` |" not in PAGE] == []


def test_every_key_is_named() -> None:
    keys = [*RuleSection.model_fields, *ReasonSection.model_fields]

    assert [key for key in keys if not re.search(rf"\b{key}\b", PAGE)] == []
