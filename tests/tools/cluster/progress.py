"""What is the tool doing while somebody waits for it? Said on standard error: standard output is for answers."""

import sys


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
