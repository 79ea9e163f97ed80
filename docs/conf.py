"""The site that Sphinx makes of these pages: `python -m sphinx -W -b html docs build/site`.

The pages are read in the repository as well, so nothing in them is Sphinx's own. What only the site
needs is added here, while it is built: the navigation out of the lists of index.md, all options of
the commands out of `--help`, and all routes with their parameters out of OpenAPI. Nothing of Sphinx is
imported, so that tests which have none can call what is below.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

from retrier import __version__
from retrier.api.application import create_api
from retrier.cli import app as command_line

DOCS = Path(__file__).parent

project = "Retrier"
project_copyright = "the authors of Retrier"
release = __version__
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["examples", "deploy", "monitoring"]

html_theme = "furo"
html_title = f"Retrier {release}"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#7ab8f5", "color-brand-content": "#7ab8f5"},
}
html_static_path = ["site"]
html_favicon = str(DOCS.parent / "retrier" / "web" / "static" / "icon.svg")
html_css_files = ["wide.css"]
html_search_scorer = str(DOCS / "site" / "scorer.js")

# The names that GitHub gives to headings, so that a link works in both places.
myst_heading_anchors = 4
# Of a console block only what is typed is copied.
copybutton_prompt_text = "$ "

LINK = re.compile(r"^- \[[^\]]+\]\(([\w/-]+)\.md\)", re.MULTILINE)
SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
RECORD = "decisions/0"


def sections_of(index: str) -> dict[str, list[str]]:
    """Return the pages that each section of index.md lists, in its order; without records."""
    _, *parts = SECTION.split(index)
    listed = {
        heading: [page for page in LINK.findall(text) if not page.startswith(RECORD)]
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }
    return {heading: pages for heading, pages in listed.items() if pages}


def toctree(pages: list[str], *options: str) -> str:
    """Return the directive that puts these pages into the navigation, unseen on the page itself."""
    return "\n".join(["\n```{toctree}", ":hidden:", *options, "", *pages, "```\n"])


def add_navigation(text: str) -> str:
    """Add the tree of all pages, under the headings of the index."""
    trees = [toctree(pages, f":caption: {name}") for name, pages in sections_of(text).items()]
    return text + "".join(trees)


def add_records(text: str) -> str:
    """Add the records of decisions, which are too many for the navigation of all pages."""
    return text + toctree(sorted(each.stem for each in DOCS.glob(f"{RECORD}*.md")))


def commands(command: Any, name: str, parent: Any = None) -> Iterator[Any]:
    """Walk a command and all below it, each as the context in which it would run."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    members = getattr(command, "commands", {})
    if not members:
        yield context
    for inner, member in members.items():
        yield from commands(member, inner, context)


def add_help(text: str) -> str:
    """Add what `--help` prints of each command."""
    whole = typer.main.get_command(command_line)
    helps = [
        f"\n## `{context.command_path}`\n\n```text\n{context.get_help()}\n```\n"
        for context in commands(whole, "retrier")
    ]
    return text + "".join(helps)


@cache
def openapi() -> dict[str, Any]:
    """Return the OpenAPI document. To make it, the routes need nothing but a version."""
    parts: Any = SimpleNamespace(version=release)
    return create_api(parts).openapi()


def type_of(schema: dict[str, Any]) -> str:
    """Return a type as a reader needs it: its name, its words, or what it is a list of."""
    match schema:
        case {"$ref": name}:
            found = f"`{name.rpartition('/')[2]}`"
        case {"anyOf": members} | {"oneOf": members}:
            found = " or ".join(dict.fromkeys(type_of(each) for each in members))
        case {"enum": words}:
            found = ", ".join(f"`{word}`" for word in words)
        case {"const": word}:
            found = f"`{word}`"
        case {"type": "array", "items": items}:
            found = f"list of {type_of(items)}"
        case {"type": name, "format": kind}:
            found = f"{name} ({kind})"
        case {"type": name}:
            found = "nothing" if name == "null" else name
        case _:
            found = "anything"
    return found


def row(*cells: str) -> str:
    """Return a row of a table, whatever is in the cells."""
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def describe(method: str, path: str, operation: dict[str, Any]) -> str:
    """Return the section of a route: what it takes, and with what it answers."""
    lines = [f"\n### {method.upper()} `{path}`\n", operation.get("description", ""), ""]
    if parameters := operation.get("parameters"):
        lines += [row("parameter", "in", "what", "default"), "|---|---|---|---|"]
        lines += [
            row(
                f"`{each['name']}`" + (", required" if each.get("required") else ""),
                each["in"],
                f"{type_of(each['schema'])}. {each.get('description', '')}",
                f"`{json.dumps(each['schema']['default'])}`" if "default" in each["schema"] else "",
            )
            for each in parameters
        ]
        lines.append("")
    for kind, body in operation.get("requestBody", {}).get("content", {}).items():
        lines.append(f"Body, `{kind}`: {type_of(body['schema'])}\n")
    answers = [
        f"{status} {each['description']}" for status, each in sorted(operation["responses"].items())
    ]
    lines.append(f"Answers: {'; '.join(answers)}.\n")
    return "\n".join(lines)


def describe_model(name: str, schema: dict[str, Any]) -> str:
    """Return the section of a model: its members, or what it is one of."""
    lines = [f"\n### {name}\n", schema.get("description", ""), ""]
    members = schema.get("properties")
    if not members:
        return "\n".join([*lines, f"{type_of(schema)}\n"])
    required = schema.get("required", ())
    lines += [row("member", "what"), "|---|---|"]
    lines += [
        row(
            f"`{member}`" + (", required" if member in required else ""),
            f"{type_of(each)}. {each.get('description', '')}",
        )
        for member, each in members.items()
    ]
    return "\n".join([*lines, ""])


def add_routes(text: str) -> str:
    """Add each route with its parameters, and each model that a body has."""
    document = openapi()
    routes = [
        describe(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    models = [describe_model(*each) for each in document["components"]["schemas"].items()]
    return "".join([text, "\n## Routes\n", *routes, "\n## Models\n", *models])


def add_changelog(text: str) -> str:
    """Put the changelog, which lies beside the README, in the place of the link to it."""
    title = text.partition("\n")[0]
    _, _, versions = (DOCS.parent / "CHANGELOG.md").read_text().partition("\n")
    return f"{title}\n{versions.replace('](docs/', '](')}"


ADDITIONS: dict[str, Callable[[str], str]] = {
    "index": add_navigation,
    "decisions/departures": add_records,
    "cli-options": add_help,
    "http-routes": add_routes,
    "changelog": add_changelog,
}
"""What the site adds to a page, by its name."""


def complete(_site: Any, page: str, source: list[str]) -> None:
    """Add to a page what only the site has."""
    if page in ADDITIONS:
        source[0] = ADDITIONS[page](source[0])
    # The diagrams stay text: the script that would draw them is on the host of a third party.
    source[0] = source[0].replace("```mermaid\n", "```text\n")


def read_again(*_: object) -> list[str]:
    """Name the pages that are read in each build: what is added to them is made of other files."""
    return list(ADDITIONS)


@cache
def titles(environment: Any) -> dict[str, Any]:
    """Return the contents of each page without its headings: its title; of the index, the trees."""
    made = {page: contents.deepcopy() for page, contents in environment.tocs.items()}
    for entry in chain.from_iterable(contents.children for contents in made.values()):
        if len(entry) > 1:
            entry.pop(1)
    index = environment.config.root_doc
    made[index][0] = environment.tocs[index][0].deepcopy()
    return made


def thin_navigation(site: Any, _page: str, _template: str, context: Any, _tree: Any) -> None:
    """Let the navigation of a page be made of the titles that the index lists.

    Sphinx would copy the headings of all pages first, for each page, and name each of the records on
    each of them: half of the time of a build.
    """
    make = context.get("toctree")

    def make_thin(**options: Any) -> str:
        whole, site.env.tocs = site.env.tocs, titles(site.env)
        try:
            return str(make(**options))
        finally:
            site.env.tocs = whole

    if make is not None:
        context["toctree"] = make_thin


def write_openapi(site: Any, problem: Exception | None) -> None:
    """Put the OpenAPI document beside the pages, for programs."""
    if problem is None and site.builder.format == "html":
        (Path(site.outdir) / "openapi.json").write_text(json.dumps(openapi()))


def setup(site: Any) -> dict[str, Any]:
    """Let Sphinx call the above."""
    site.connect("source-read", complete)
    site.connect("env-get-outdated", read_again)
    site.connect("html-page-context", thin_navigation, priority=400)  # before the theme's, 500
    site.connect("build-finished", write_openapi)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
