"""What the code offers is written down: each page against the names it must hold."""

import re
from pathlib import Path

import yaml

from retrier.settings import ErrorQueue, Settings, load_settings
from tests.support.project import ROOT
from tests.support.setting_keys import SETTING_KEYS, variable_of
from tests.support.wrong_settings import WRONG_FILES

EXAMPLE = ROOT / "config.example.yaml"
CONFIGURATION = ROOT / "docs" / "configuration.md"

# A new page is a new line here: the page, and the names it must show as code.
PAGES = {
    "configuration.md": (*SETTING_KEYS, *map(variable_of, SETTING_KEYS), *ErrorQueue.model_fields),
}

SETTING_ROW = re.compile(r"^\| `([\w.]+)` \| `(.+?)` \| `(RETRIER_\w+)` \|", re.MULTILINE)


def documented_settings() -> dict[str, tuple[str, str]]:
    rows = SETTING_ROW.findall(CONFIGURATION.read_text())
    return {key: (default, variable) for key, default, variable in rows}


def keys_of(tree: dict[str, object], prefix: str = "") -> set[str]:
    nested = [
        keys_of(value, f"{prefix}{key}.")
        if value and isinstance(value, dict)
        else {f"{prefix}{key}"}
        for key, value in tree.items()
    ]
    return set().union(*nested)


def test_a_page_shows_its_names() -> None:
    texts = {page: (ROOT / "docs" / page).read_text() for page in PAGES}

    named = [(page, name) for page, names in PAGES.items() for name in names]
    assert [(page, name) for page, name in named if f"`{name}`" not in texts[page]] == []


def test_the_example_is_all_defaults() -> None:
    assert load_settings(EXAMPLE, {}) == Settings()


def test_the_example_holds_every_key_and_no_other() -> None:
    assert keys_of(yaml.safe_load(EXAMPLE.read_text())) == set(SETTING_KEYS)


def test_the_policies_of_the_example_hold_once_they_are_no_comment(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().partition("\npolicies:\n")[2]
    path = tmp_path / "retrier.yaml"
    path.write_text("policies:\n" + text.replace("#  ", "  "))

    found = load_settings(path, {}).policies

    assert found is not None
    assert [rule.name for rule in found.rules] == ["payments", "rest"]


def test_the_documentation_knows_every_key_and_no_other() -> None:
    assert set(documented_settings()) == set(SETTING_KEYS)


def test_the_documentation_knows_the_variable_of_each_key() -> None:
    variables = {key: variable for key, (_, variable) in documented_settings().items()}

    assert variables == {key: variable_of(key) for key in SETTING_KEYS}


def test_the_documentation_knows_the_default_of_each_key() -> None:
    given = {variable: default.strip('[]"') for default, variable in documented_settings().values()}

    loaded = {name: load_settings(None, {name: text}) for name, text in given.items()}
    assert [name for name, settings in loaded.items() if settings != Settings()] == []


def test_the_documentation_shows_what_a_wrong_value_says() -> None:
    text = f"\n{CONFIGURATION.read_text()}"

    assert [line for line in WRONG_FILES.values() if f"\n{line}" not in text] == []
