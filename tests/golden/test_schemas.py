"""Every answer of the record is what the OpenAPI document says of it."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from tests.golden.asked import route_of
from tests.golden.record import KINDS, read

BYTES = {"GET /api/messages/{message_id}/body"}
"""Its answer is JSON if the message was."""

NUMBER = re.compile(r"(?<=: )<\w+>(?=,?$)", re.MULTILINE)
"""A number that differs from run to run, which the record names: `"pid": <pid>`."""


def answers(kind: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield each answer in JSON: its title, its route, its status, and its body."""
    for title, text in read(kind)["api"].items():
        head, _, body = text.partition("\n\n")
        status, *headers = head.splitlines()
        if body and any("json" in each for each in headers if each.startswith("content-type")):
            method, route, *_ = f"{route_of(title)} ".split(" ")
            yield title, f"{method} {route}", status, body


def schemas(document: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """Return what the document says of each answer in JSON, by route and status."""
    return {
        (f"{method.upper()} {path}", status): content["schema"]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        for status, response in operation["responses"].items()
        for kind, content in response.get("content", {}).items()
        if kind.endswith("json")
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_recorded_answer_is_as_its_schema_says(kind: str) -> None:
    document = json.loads(read(kind)["api"]["openapi.json"].partition("\n\n")[2])
    documented, routes = schemas(document), {route for route, _ in schemas(document)}
    wrong, unsaid = [], []
    for title, route, status, body in answers(kind):
        if (route, status) in documented:
            schema = {**documented[route, status], "components": document["components"]}
            wrong += [
                f"{title}: {each.message} at {each.instance_path}"
                for each in Draft202012Validator(schema).iter_errors(
                    json.loads(NUMBER.sub("0", body))
                )
            ]
        elif route in routes and route not in BYTES:
            unsaid.append((title, status))

    assert (wrong, unsaid) == ([], [])
