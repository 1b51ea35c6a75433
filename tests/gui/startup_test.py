#!/usr/bin/env python3
"""Starts the real program on the shipped trace, twice, each with nothing of a person's: it must paint its window and its
first map in time, print nothing but that, end when its window is closed amidst the statistics, and keep its session.

  startup_test.py HEADSCOPE TRACE [limit in seconds, default 20]

The requirement is 1.5 s to the painted window on a quiet machine; the default limit allows for a busy one. The times are
printed.
"""

import os
import re
import subprocess
import sys
import tempfile

LINE = re.compile(r"headscope: (window painted|map and mask painted) (\d+\.\d+) s after the process began")


def start(program, trace, home, name):
    environment = {key: value for key, value in os.environ.items()
                   if key not in ("DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY", "QT_SCALE_FACTOR")}
    environment.update(XDG_CONFIG_HOME=os.path.join(home, "config"), XDG_CACHE_HOME=os.path.join(home, "cache"),
                       XDG_RUNTIME_DIR=os.path.join(home, "run"), HEADSCOPE_LOG_STARTUP="only",
                       QT_QPA_PLATFORM="xcb")
    run = subprocess.run([program, trace], env=environment, capture_output=True, text=True, timeout=250)
    assert run.returncode == 0, f"{name}: exit code {run.returncode}: {run.stderr}"
    assert run.stdout == "", f"{name}: stdout is for results, but holds: {run.stdout}"
    times = {}
    for line in run.stderr.splitlines():
        match = LINE.fullmatch(line)
        assert match, f"{name}: an unexpected line on stderr: {line}"
        times[match[1]] = float(match[2])
    assert len(times) == 2, f"{name}: stderr lacks a time: {run.stderr}"
    return times


def main():
    program, trace = sys.argv[1:3]
    limit = float(sys.argv[3]) if len(sys.argv) > 3 else 20
    with tempfile.TemporaryDirectory() as home:
        os.mkdir(os.path.join(home, "run"), 0o700)
        for name in ("first start", "second start"):
            times = start(program, trace, home, name)
            print(f"{name}: window painted after {times['window painted']:.2f} s, "
                  f"map and mask after {times['map and mask painted']:.2f} s")
            assert times["window painted"] <= limit, f"{name}: the window took more than {limit} s"
        assert os.path.exists(os.path.join(home, "config", "headscope", "session.json")), "no session was kept"


main()
