"""What the worker processes of this machine have in hand, and which of it they have started.

A broker says of a message that it came back. It does not say whether its handler was ever started:
all that a dead process had prefetched comes back alike. So each process keeps a small file of what it
has in hand. The file is memory that is shared with the kernel: it costs no call to the system, and is
there however the process dies. Whoever is handed a message that came back looks into the files of all.

Files hold digests only, never a body. Where none can be kept, nothing is known: see `arrivals`.
"""

import json
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from enum import IntEnum
from hashlib import blake2b
from pathlib import Path
from tempfile import gettempdir
from time import time
from uuid import uuid4

from retrier.private_files import make_private_folder
from retrier.processes import Owner, describe_process, is_gone
from retrier.worker.log import LOG

KEY = 16
"""Bytes of the digest by which a delivery is known."""
_PLACE = KEY + 1
_HEAD = 512
_SPARE = 64
"""Places beside those that can be in use: what a broken connection took along is found for a while."""
KEPT = 3600.0
"""Seconds for which the file of a process that died is kept: its messages come back at once."""
KEPT_WITHOUT_OWNER = 7 * 86400.0
"""The same, where nobody can say whether the process is there."""
MOST_FILES = 200
"""A process that dies every second must not fill the disk."""
MOST_RETURNS = 50
"""So many returns of one message are looked up."""
_SUFFIX = ".starts"


class Trace(IntEnum):
    """What is known of an earlier delivery. The value is the byte in the file."""

    UNKNOWN = 0
    IN_HAND = 1
    STARTED = 2


class Keys:
    """Makes the digests: equal for one delivery of one message, in every process."""

    def __init__(self, urls: Sequence[str]) -> None:
        """`urls`: the same queue name on another broker is another queue."""
        self._broker = "\n".join(sorted(urls)).encode()
        self._begun: dict[str, blake2b] = {}

    def make(self, queue: str, name: str | None, body: bytes, counts: tuple[int, ...]) -> bytes:
        """Return the digest. `name` is the sender's id; `counts` tell deliveries of it apart."""
        begun = self._begun.get(queue)
        if begun is None:
            begun = blake2b(b"%s\n%s\n" % (self._broker, queue.encode()), digest_size=KEY)
            self._begun[queue] = begun
        made = begun.copy()
        made.update(f"{name}\n{counts}\n".encode())
        made.update(body)
        return made.digest()

    def of_site(self, queues: Sequence[str]) -> str:
        """Return how the files of these queues begin."""
        site = "\n".join(sorted(queues)).encode()
        return blake2b(self._broker + b"\n\n" + site, digest_size=KEY).hexdigest()


class Starts:
    """The file of this process, and a look into those of the others. Used by one thread at a time."""

    def __init__(self, site: str, room: int, folder: Path | None = None) -> None:
        """Make the file; without a place for it only this process's own memory is kept."""
        self._site = site
        self._me = describe_process()
        self._room = room
        self._places = _count_places(room)
        self._busy = bytearray(self._places)
        self._next = 0
        self._has_lost = False
        self._folder = folder or Path(gettempdir()) / f"retrier-worker-{os.getuid()}"
        self._file: Path | None = self._folder / f"{site}-{self._me.pid}-{uuid4().hex[:8]}{_SUFFIX}"
        self._memory: mmap.mmap | bytearray = bytearray(self._places * _PLACE)
        self._begin = 0
        try:
            self._open(self._file)
        except OSError as error:
            self._file = None
            LOG.info("what is started is not noted in a file: %s", error)

    @property
    def beside_others(self) -> bool:
        """Whether processes that died, or others, have left or keep files for the same queues here.

        If not, what comes back has been in the hands of another machine.
        """
        return self._has_lost or any(True for _ in self._find_others())

    @property
    def may_be_unseen(self) -> bool:
        """Whether a message may have been on its way to a process of this machine that never saw it.

        So it is where one that may have several messages in hand died, or is there, or lost its connection.
        """
        if self._has_lost and self._room > 1:
            return True
        return any(_has_room_for_several(file) for file in self._find_others())

    def receive(self, key: bytes) -> int:
        """Note a delivery that is in hand; return its place."""
        place = self._next
        for _ in range(self._places):
            if not self._busy[place]:
                break
            place = (place + 1) % self._places
        self._next = (place + 1) % self._places
        self._busy[place] = 1
        at = self._begin + place * _PLACE
        # The state last: a process that dies in between has only left an empty place.
        self._memory[at + 1 : at + _PLACE] = key
        self._memory[at] = Trace.IN_HAND
        return place

    def start(self, place: int) -> None:
        """Note, before it is, that a handler is started."""
        self._memory[self._begin + place * _PLACE] = Trace.STARTED

    def give_back(self, place: int) -> None:
        """Note that it is given back on purpose: what was started there is no crash."""
        self._memory[self._begin + place * _PLACE] = Trace.IN_HAND

    def settle(self, place: int) -> None:
        """Forget a delivery that was acknowledged."""
        self._memory[self._begin + place * _PLACE] = Trace.UNKNOWN
        self._busy[place] = 0

    def lose(self) -> None:
        """Note that the connection is gone: what was in hand comes back, and may be looked up."""
        self._has_lost = self._has_lost or any(self._busy)
        self._busy = bytearray(self._places)

    def look(self, keys: Sequence[bytes]) -> Sequence[Trace]:
        """Return what is known of these deliveries."""
        found = dict.fromkeys(keys, Trace.UNKNOWN)
        _search(self._read_near(), found)
        if Trace.UNKNOWN in found.values():
            # A worker that handles other queues as well has its own files: so a deploy that adds one.
            _search(_read(self._find_files("*")), found)
        return [found[key] for key in keys]

    def close(self) -> None:
        """Remove the file: this process ends well, and has given everything back."""
        if self._file is not None and os.getpid() == self._me.pid:
            with suppress(OSError):
                self._file.unlink()

    def _open(self, file: Path) -> None:
        make_private_folder(self._folder)
        about = self._folder.lstat()  # a link of somebody else's is open to all, and refused
        if about.st_uid != os.getuid() or about.st_mode & 0o077:
            raise PermissionError(f"{self._folder} is open to other users")
        self._tidy_up()
        head = json.dumps(asdict(self._me)).encode().ljust(_HEAD)[:_HEAD]
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, head + bytes(self._places * _PLACE))
            self._memory = mmap.mmap(descriptor, 0)
            self._begin = _HEAD
        finally:
            os.close(descriptor)

    def _find_others(self) -> Iterator[Path]:
        return self._find_files(f"{self._site}-*")

    def _find_files(self, name: str) -> Iterator[Path]:
        """Return the files of others whose names are like this."""
        if self._file is not None:
            for file in self._folder.glob(f"{name}{_SUFFIX}"):
                if file != self._file:
                    yield file

    def _read_near(self) -> Iterator[bytes | memoryview]:
        yield memoryview(self._memory)[self._begin :]
        yield from _read(self._find_others())

    def _tidy_up(self) -> None:
        """Remove the files of processes that died long ago, and the oldest of far too many."""
        ages: Mapping[Path, float] = {}
        with suppress(OSError):
            ages = {each: each.stat().st_mtime for each in self._folder.glob(f"*{_SUFFIX}")}
        crowd = [each for each in ages if each.name.startswith(self._site)]
        oldest = sorted(crowd, key=lambda each: ages[each])[:-MOST_FILES]
        for file, changed in ages.items():
            if (time() - changed > KEPT or file in oldest) and self._is_left(
                file, time() - changed
            ):
                with suppress(OSError):
                    file.unlink()

    def _is_left(self, file: Path, age: float) -> bool:
        try:
            owner = Owner(**json.loads(file.read_bytes()[:_HEAD]))
        except (OSError, ValueError, TypeError):
            return age > KEPT_WITHOUT_OWNER
        is_known = owner.started and self._me.started and owner.space == self._me.space
        return is_gone(owner, self._me) if is_known else age > KEPT_WITHOUT_OWNER


def _read(files: Iterator[Path]) -> Iterator[bytes]:
    for file in files:
        with suppress(OSError):
            yield file.read_bytes()[_HEAD:]


def _search(contents: Iterator[bytes | memoryview], found: dict[bytes, Trace]) -> None:
    """Note what these contents say of the deliveries that are asked for."""
    for content in contents:
        for start in range(0, len(content) - KEY, _PLACE):
            key, state = bytes(content[start + 1 : start + _PLACE]), content[start]
            if state and key in found:
                found[key] = max(Trace(state), found[key])


def _count_places(room: int) -> int:
    return 4 * room + _SPARE


def _has_room_for_several(file: Path) -> bool:
    """Return what the size of the file says: its head is read by workers of earlier versions too."""
    with suppress(OSError):
        return file.stat().st_size > _HEAD + _count_places(1) * _PLACE
    return False
