# SPDX-License-Identifier: Apache-2.0
"""Starts of headscope that fork from one that is loaded (forking_main.c). What runs is the program's own main, in a process of its own; only the loading is
not done again. Each thread of a test has a loaded program for itself, and of those that run a model another, with LibTorch.

HEADSCOPE_FORKING_MAIN is the library and HEADSCOPE_FORKED_TORCH the program's half that has LibTorch; without them every start is one of its own.

A loaded program that fails, or that a start waits for in vain, is given up with what it began, and the next start loads another.
"""
import atexit
import contextlib
import os
import signal
import socket
import struct
import subprocess
import threading

FORKING_MAIN, TORCH = os.environ.get("HEADSCOPE_FORKING_MAIN"), os.environ.get("HEADSCOPE_FORKED_TORCH")
WITH_TORCH = ("capture", "compare", "demo", "eval")
MOST_BYTES, MOST_ARGUMENTS = 60_000, 4_000  # of a request
LOADING_SECONDS = 30  # what loading may take beside a start's own limit


def environment(**more):
    """This process's, with threads that sleep while they wait: without that setting `main` begins a second time, as another image of the program, which has
    neither what is loaded nor what is preloaded (app/support/sleeping_threads.h)."""
    return {"OMP_WAIT_POLICY": "passive", **os.environ, **more}


class LoadedProgram:
    def __init__(self, program, before, library):
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        settings = {"LD_PRELOAD": ":".join([*before, FORKING_MAIN]), "HEADSCOPE_FORK_REQUESTS": str(theirs.fileno())}
        if library:
            settings["HEADSCOPE_FORK_LIBRARY"] = library
        self.process = subprocess.Popen([program], env=environment(**settings), pass_fds=[theirs.fileno()])
        theirs.close()
        atexit.register(self.close)

    def run(self, request, timeout):
        """Exit code, stdout and stderr."""
        files = [os.memfd_create(name) for name in ("stdout", "stderr")]
        try:
            self.channel.settimeout(LOADING_SECONDS + timeout)
            socket.send_fds(self.channel, [request], files)
            pid = self.answer()
            self.channel.settimeout(timeout)
            try:
                status = self.answer()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, signal.SIGKILL)
                self.channel.settimeout(LOADING_SECONDS)
                self.answer()
                raise
            texts = []
            for file in files:
                os.lseek(file, 0, os.SEEK_SET)
                with open(file, closefd=False) as text:
                    texts.append(text.read())
            return os.waitstatus_to_exitcode(status), *texts
        finally:
            for file in files:
                os.close(file)

    def answer(self):
        number = self.channel.recv(100)
        if len(number) != 4:
            raise RuntimeError("the loaded program has ended: its stderr says why")
        return struct.unpack("i", number)[0]

    def close(self):
        """A start that is under way ends with the program (forking_main.c)."""
        atexit.unregister(self.close)
        self.channel.close()
        self.process.kill()
        self.process.wait()


loaded = threading.local()


def run_in_fork(before, command, request, timeout):
    """By the program of this thread that is loaded for such a command."""
    library = TORCH if len(command) > 1 and command[1] in WITH_TORCH else None
    key = (command[0], *before, library)
    if not hasattr(loaded, "programs"):
        loaded.programs = {}
    if key not in loaded.programs:
        loaded.programs[key] = LoadedProgram(command[0], before, library)
    try:
        return loaded.programs[key].run(request, timeout)
    except BaseException:
        loaded.programs.pop(key).close()  # it may have ended, or its next answer be this start's
        raise


def run(program, arguments, timeout, cwd=None, settings=None, before=()):
    """As subprocess.run with the output captured as text. `settings` are added to the environment, and the libraries `before` are preloaded as well."""
    command, settings = [str(program), *map(str, arguments)], settings or {}
    parts = [os.path.abspath(cwd or os.curdir), *(f"{name}={value}" for name, value in settings.items()), "", *command]
    request = b"".join(os.fsencode(part) + b"\0" for part in parts)
    if not FORKING_MAIN or len(request) > MOST_BYTES or len(command) > MOST_ARGUMENTS:
        preload = {"LD_PRELOAD": ":".join(before)} if before else {}
        return subprocess.run(command, cwd=cwd, env=environment(**preload, **settings), capture_output=True, text=True, timeout=timeout)
    try:
        return subprocess.CompletedProcess(command, *run_in_fork(before, command, request, timeout))
    except TimeoutError:
        raise subprocess.TimeoutExpired(command, timeout) from None
