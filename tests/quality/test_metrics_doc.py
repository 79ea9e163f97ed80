"""Every metric is documented, and nothing is documented, drawn or alerted on that is none."""

import json
import re
from typing import Any

import pytest
import yaml

from tests.support.bench import STAGING
from tests.support.factories import ERROR_QUEUE
from tests.support.metrics import Scrape, idle_metrics
from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "metrics.md").read_text()
ALERTS = (ROOT / "docs" / "monitoring" / "alerts.yaml").read_text()
DASHBOARD = (ROOT / "docs" / "monitoring" / "grafana-dashboard.json").read_text()

ROW = re.compile(r"^\| `(retrier_\w+)` \| (\w+) \|([^|]*)\| (.+) \|$", re.MULTILINE)
NAME = re.compile(r"\bretrier_\w+")
WORD = re.compile(r"`(\w+)`")
OF_THE_FORMAT = {"le"}
ONLY_IN_FORMAT = {"queue", "version", "breaker", "sha256"}
"""Labels whose values are the operator's, or change with each version."""


@pytest.fixture(scope="module")
def scrape() -> Scrape:
    """Give a scrape that shows everything a process can show."""
    metrics = idle_metrics()
    metrics.queues.reached({ERROR_QUEUE: 1, STAGING: 1})
    return Scrape.of(metrics)


def names_of(scrape: Scrape) -> dict[str, tuple[str, frozenset[str]]]:
    """Return type and labels by the name under which a metric is asked for."""
    return {
        f"{family.name}_total" if family.type == "counter" else family.name: (
            family.type,
            frozenset(label for each in family.samples for label in each.labels) - OF_THE_FORMAT,
        )
        for family in scrape.families
        if not family.name.endswith("_created")
    }


def documented() -> dict[str, tuple[str, frozenset[str]]]:
    return {
        name: (kind, frozenset(WORD.findall(labels))) for name, kind, labels, _ in ROW.findall(PAGE)
    }


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS)["groups"]
    return list(group["rules"])


def panels() -> list[dict[str, Any]]:
    return list(json.loads(DASHBOARD)["panels"])


def queries() -> list[str]:
    drawn = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [*drawn, *(rule["expr"] for rule in rules())]


def test_the_page_has_every_metric_with_type_and_labels_and_no_other(scrape: Scrape) -> None:
    assert documented() == names_of(scrape)


def test_the_page_names_every_value_of_every_label(scrape: Scrape) -> None:
    meanings = {name: words for name, _, _, words in ROW.findall(PAGE)}
    values = {
        (sample.name.removesuffix("_bucket"), value)
        for sample in scrape.samples()
        for label, value in sample.labels.items()
        if label not in ONLY_IN_FORMAT | OF_THE_FORMAT
    }

    unnamed = {
        (name, value)
        for name, value in values
        if name in meanings and f"`{value}`" not in meanings[name]
    }

    assert len(values) > 20
    assert unnamed == set()


def test_every_query_asks_for_metrics_that_there_are(scrape: Scrape) -> None:
    asked = {name for query in queries() for name in NAME.findall(query)}

    assert asked - scrape.names() == set()


def test_every_metric_is_drawn_or_alerted_on(scrape: Scrape) -> None:
    asked = {name for query in queries() for name in NAME.findall(query)}
    stems = {name.removesuffix("_bucket") for name in asked}

    assert set(names_of(scrape)) - stems == set()


def test_every_label_in_a_query_is_one_of_its_metrics(scrape: Scrape) -> None:
    known = {label for sample in scrape.samples() for label in sample.labels}
    grouped = {
        label
        for query in queries()
        for labels in re.findall(r"\bby \(([^)]*)\)", query)
        for label in labels.split(", ")
    }

    assert grouped
    assert grouped - known == set()


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    assert len(rules()) == len({rule["alert"] for rule in rules()})
    for rule in rules():
        assert rule["alert"].startswith("Retrier")
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert set(rule["annotations"]) == {"summary", "description"}


def test_no_two_panels_lie_on_each_other() -> None:
    cells = [
        (x, y)
        for panel in panels()
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_every_panel_draws_from_the_chosen_data_source() -> None:
    sources = [target["datasource"] for panel in panels() for target in panel["targets"]]

    assert {source["uid"] for source in sources} == {"${datasource}"}
