"""A page is given the values that its template names, and no others: types cannot tell."""

import ast
from collections.abc import Iterator
from pathlib import Path

from jinja2 import meta, nodes

from retrier import web
from retrier.web.page import environment

FOLDER = Path(web.__file__).parent
OF_EVERY_PAGE = {"frame", "new_key"}
OF_THE_ANSWER = {"current", "status"}


def pages() -> Iterator[tuple[str, str, set[str]]]:
    """Yield where a page is shown, its template, and the names of the values that it is given."""
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Name(id="show"), args=[_, ast.Constant(value=str(name))], keywords=more
                ):
                    given = {each.arg for each in more if each.arg is not None}
                    yield f"{path.name}:{node.lineno}", name, given - OF_THE_ANSWER


def names_in(template: str) -> set[str]:
    """Return the values that a template names, with those of templates that it includes."""
    content = environment().parse((FOLDER / "templates" / template).read_text())
    found = meta.find_undeclared_variables(content) - environment().globals.keys()
    for included in content.find_all(nodes.Include):
        if isinstance(included.template, nodes.Const):
            found |= names_in(included.template.value)
    imported = {str(name) for each in content.find_all(nodes.FromImport) for name in each.names}
    macros = {each.name for each in content.find_all(nodes.Macro)}
    targets = [each.target for each in content.find_all(nodes.Assign)]
    assigned = {
        name.name
        for each in targets
        for name in ([each] if isinstance(each, nodes.Name) else each.find_all(nodes.Name))
    }
    return found - imported - macros - assigned - OF_EVERY_PAGE


def test_each_page_is_given_what_its_template_names() -> None:
    differences = {
        f"{place} {template}": (given, wanted)
        for place, template, given in pages()
        if given != (wanted := names_in(template))
    }

    assert differences == {}


def test_the_pages_are_found() -> None:
    shown = {template for _, template, _ in pages()}
    parts = {"base.html", "parts.html", "operation_parts.html", "bodies.html", "plot.html"}
    without_a_frame = {"refused.html"}
    names = {each.name for each in (FOLDER / "templates").glob("*.html")}

    assert shown == names - parts - without_a_frame
