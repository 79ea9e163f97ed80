"""The controls of a page that a person can press: what each leads to, and what is disabled why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass(frozen=True, slots=True)
class Control:
    """A link or a button that is not disabled: by which method it asks for which address."""

    method: str
    address: str


@dataclass(frozen=True, slots=True)
class Disabled:
    """A control that is disabled: its words, and the id of what says why."""

    words: str
    described_by: str


@dataclass(slots=True)
class Controls(HTMLParser):
    """Reads a page. `texts` are those of all elements with an id, by it."""

    enabled: set[Control] = field(default_factory=set)
    disabled: list[Disabled] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    _form: Mapping[str, str] | None = None
    _inside: list[tuple[str, str]] = field(default_factory=list)
    _words: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag not in _VOID:
            self._inside.append((tag, given.get("id", "")))
        if "disabled" in given and tag in ("a", "button", "span"):
            self._words = given
        elif tag == "a" and given.get("href", "").startswith("/"):
            self.enabled.add(Control("GET", given["href"]))
        elif tag == "form":
            self._form = given
        elif tag == "button" and given.get("type") != "button" and self._form is not None:
            self._press(given, self._form)

    def _press(self, button: Mapping[str, str], form: Mapping[str, str]) -> None:
        method = form.get("method", "get").upper()
        address = button.get("formaction") or form.get("action", "")
        if button.get("name") and method == "GET":
            address = f"{address}?{button['name']}={button['value']}&id=x"
        if method in ("GET", "POST") and address:
            self.enabled.add(Control(method, address))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        while self._inside and self._inside.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for _, name in self._inside:
            if name:
                self.texts[name] = f"{self.texts.get(name, '')}{data}"
        if self._words is not None and data.strip():
            self.disabled.append(Disabled(data.strip(), self._words.get("aria-describedby", "")))
            self._words = None


_VOID = {"input", "br", "meta", "link", "img", "hr", "area", "base", "col", "source"}


def controls_of(html: str) -> Controls:
    """Read the controls of a page."""
    made = Controls()
    made.feed(html)
    return made
