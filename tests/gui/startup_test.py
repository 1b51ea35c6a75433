#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts the real program on the shipped trace, twice, each with nothing of a person's: it must paint its window and its
first map in time, print nothing but that, let a model's idle threads sleep, end when its window is closed amidst the statistics, and keep its session. Then
two of them share one session file, and bench --gui is given a file that is no trace, and makes one itself.

  startup_test.py HEADSCOPE TRACE [limit in seconds, default 20]

The requirement is 1.5 s to the painted window on a quiet machine; the default limit allows for a busy one, and is
HEADSCOPE_TEST_PATIENCE times as long under a sanitizer. The times are printed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

PATIENCE = int(os.environ.get("HEADSCOPE_TEST_PATIENCE", "1"))
LINE = re.compile(r"headscope: (window painted|map and mask painted) (\d+\.\d+) s after the process began")


def environment_of(home):
    environment = {key: value for key, value in os.environ.items()
                   if key not in ("DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY", "QT_SCALE_FACTOR", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    environment.update(XDG_CONFIG_HOME=os.path.join(home, "config"), XDG_CACHE_HOME=os.path.join(home, "cache"),
                       XDG_RUNTIME_DIR=os.path.join(home, "run"), HEADSCOPE_LOG_STARTUP="only",
                       QT_QPA_PLATFORM="xcb")
    return environment


def begin(program, trace, home):
    return subprocess.Popen([program, trace], env=environment_of(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def check_threads_sleep(run):
    """The OpenMP library reads its policy when the program is loaded, so it must be in the environment that the program began with."""
    end = time.monotonic() + 20 * PATIENCE
    while run.poll() is None and time.monotonic() < end:
        with open(f"/proc/{run.pid}/environ", "rb") as file:
            if b"OMP_WAIT_POLICY=passive" in file.read().split(b"\0"):
                return
        time.sleep(0.02)
    raise AssertionError("the window's OpenMP threads spin while they wait")


def times_of(run, name):
    """Waits for the end of a run; the seconds that it printed."""
    stdout, stderr = run.communicate(timeout=250 * PATIENCE)
    assert run.returncode == 0, f"{name}: exit code {run.returncode}: {stderr}"
    assert stdout == "", f"{name}: stdout is for results, but holds: {stdout}"
    times = {}
    for line in stderr.splitlines():
        match = LINE.fullmatch(line)
        assert match, f"{name}: an unexpected line on stderr: {line}"
        times[match[1]] = float(match[2])
    assert len(times) == 2, f"{name}: stderr lacks a time: {stderr}"
    return times


def bench_refuses(program, home):
    """A trace that cannot be opened was waited for, ten minutes long."""
    broken = os.path.join(home, "broken.h5")
    with open(broken, "w", encoding="utf-8") as file:
        file.write("no trace")
    run = subprocess.run([program, "bench", "--gui", "--trace", broken], env=environment_of(home), capture_output=True,
                         text=True, timeout=60 * PATIENCE)
    assert run.returncode != 0 and broken in run.stderr and run.stdout == "", (run.returncode, run.stdout, run.stderr)
    assert "ten minutes" not in run.stderr, run.stderr


def bench_makes_its_trace(program, home):
    """A synthetic trace is opened like any other, nothing of it stays, and the sliders of both phases are moved on it."""
    temporary, out = os.path.join(home, "temporary"), os.path.join(home, "window.json")
    os.mkdir(temporary)
    run = subprocess.run([program, "bench", "--gui", "--synthetic", "512x64", "--pan-seconds", "0.5", "--slider-steps",
                          "1", "-o", out], env=dict(environment_of(home), TMPDIR=temporary), capture_output=True,
                         text=True, timeout=120 * PATIENCE)
    assert run.returncode == 0, (run.returncode, run.stderr)
    with open(out, encoding="utf-8") as file:
        report = json.load(file)
    opened = report["trace"]
    assert (opened["tokens"], opened["rows"], opened["heads"]) == (512, 512, 64), opened
    assert os.listdir(temporary) == [], os.listdir(temporary)
    for phase in ("prefill", "decode"):
        moved = {live["method"] for live in report["live"] if live["phase"] == phase and live["maps"]["count"] == 1}
        assert len(moved) >= 10, (phase, moved)
    # Each has times, or the window's reason: the first budgets of one are less than it always keeps, and another wants
    # vectors that the trace lacks.
    for live in report["live"]:
        assert (live["maps"]["count"] == 1) == ("refused" not in live), live
    decode = {live["method"]: live for live in report["live"] if live["phase"] == "decode"}
    assert decode["lag-kv"]["maps"]["count"] == 1, decode["lag-kv"]
    assert "before RoPE" in decode["expected-attention"]["refused"], decode["expected-attention"]
    assert decode["expected-attention"]["refused"] in run.stdout, run.stdout


def main():
    program, trace = sys.argv[1:3]
    limit = float(sys.argv[3]) if len(sys.argv) > 3 else 20 * PATIENCE
    with tempfile.TemporaryDirectory() as home:
        os.mkdir(os.path.join(home, "run"), 0o700)
        for name in ("first start", "second start"):
            run = begin(program, trace, home)
            check_threads_sleep(run)
            times = times_of(run, name)
            print(f"{name}: window painted after {times['window painted']:.2f} s, "
                  f"map and mask after {times['map and mask painted']:.2f} s")
            assert times["window painted"] <= limit, f"{name}: the window took more than {limit} s"
        session = os.path.join(home, "config", "headscope", "session.json")
        assert os.path.exists(session), "no session was kept"
        # Two at once, each on a trace of its own, end at about the same moment: the file is whole, and knows both.
        copy = os.path.join(home, "copy.h5")
        shutil.copyfile(trace, copy)
        runs = [begin(program, path, home) for path in (trace, copy)]
        for run in runs:
            times_of(run, "one of two windows")
        with open(session, encoding="utf-8") as file:
            recent = json.load(file)["recent"]
        assert {os.path.realpath(path) for path in recent} >= {os.path.realpath(path) for path in (trace, copy)}, recent
        bench_refuses(program, home)
        bench_makes_its_trace(program, home)


main()
