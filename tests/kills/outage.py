"""A broker that is out of reach for one process, and there for the next one."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from tests.kills.sites import Place
from tests.support.tcp_proxy import TcpProxy


class Outage:
    """Gives a process its way to the broker, and takes it away when told to."""

    def __init__(self, place: Place) -> None:
        self.environ: Mapping[str, str] = {}
        self._url, self._variable = place.broker_url, "RETRIER_BROKER__URL"
        if place.endpoint:
            self._url = place.endpoint
            self._variable = "RETRIER_BROKER__TRANSPORT_OPTIONS__ENDPOINT_URL"
        self._line = ExitStack()
        self._after = ExitStack()

    def __enter__(self) -> Self:
        if not self._is_file:
            proxy = self._line.enter_context(TcpProxy(self._url))
            self.environ = {self._variable: proxy.url}
        return self

    def begin(self) -> None:
        """Break every connection, and let nobody in any more."""
        self._line.close()
        if self._is_file:
            self._after.enter_context(_hidden(Path(self._url.removeprefix("embedded:///"))))

    def __exit__(self, *_: object) -> None:
        self._line.close()
        self._after.close()

    @property
    def _is_file(self) -> bool:
        return self._url.startswith("embedded:")


@contextmanager
def _hidden(path: Path) -> Iterator[None]:
    away = path.with_suffix(".away")
    path.rename(away)
    path.mkdir()
    try:
        yield
    finally:
        path.rmdir()
        away.rename(path)
