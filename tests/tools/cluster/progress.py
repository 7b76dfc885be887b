"""Reports progress on standard error; standard output is for results.

A step that takes long says what it does, how long that usually takes on two cores, and how far it is: on a terminal in one line that
changes, in a log in one line a minute. Steps may run side by side, each in a thread of its own.
"""

import contextlib
import dataclasses
import shutil
import sys
import threading
import time

# Seconds between two reports: on a terminal, and in a log.
OFTEN, SELDOM = 0.5, 60

_lock = threading.RLock()
_running: list["Step"] = []
_has_line = False  # Whether the terminal's last line is one that changes.


@dataclasses.dataclass(eq=False)
class Step:
    what: str
    usual: float  # seconds
    of: int | None = None  # parts
    done: int = 0
    begun: float = dataclasses.field(default_factory=time.monotonic)

    def advance(self) -> None:
        self.done += 1

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    def __str__(self) -> str:
        parts = f"{min(self.done, self.of)} of {self.of} parts, " if self.of else ""
        return f"{self.what}: {parts}{clock(self.seconds)} of usually {clock(self.usual)}"


def clock(seconds: float) -> str:
    """Minutes and seconds: 4:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@contextlib.contextmanager
def step(what: str, usual: float, of: int | None = None):
    """Reports on the step while the block runs, and how long it took. `usual` is in seconds, `of` the number of its parts."""
    new = Step(what, usual, of)
    ended = threading.Event()
    with _lock:
        _running.append(new)
        if not sys.stderr.isatty():
            say(f"{what} (usually {clock(usual)})")
    threading.Thread(target=report, args=(new, ended), daemon=True).start()
    try:
        yield new
    finally:
        ended.set()
        with _lock:
            _running.remove(new)
            # A step of less than a second needs no second line.
            if new.seconds >= 1:
                say(f"{what}: took {clock(new.seconds)}")


def report(new: Step, ended: threading.Event) -> None:
    """In a log each step reports for itself, on a terminal the first one for all."""
    is_terminal = sys.stderr.isatty()
    while not ended.wait(OFTEN if is_terminal else SELDOM):
        with _lock:
            if not is_terminal:
                say(str(new))
            elif _running and _running[0] is new:
                show(" · ".join(str(each) for each in _running))


def show(line: str) -> None:
    """Replaces the terminal's last line."""
    global _has_line
    width = shutil.get_terminal_size().columns - 1
    print(f"\r\033[K{line[:width]}", end="", file=sys.stderr, flush=True)
    _has_line = True


def say(message: str) -> None:
    """Prints a line that stays."""
    global _has_line
    with _lock:
        print(f"\r\033[K{message}" if _has_line else message, file=sys.stderr, flush=True)
        _has_line = False
