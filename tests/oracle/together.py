# SPDX-License-Identifier: Apache-2.0
"""Runs several programs that need transformers one after the other, each in a process of its own that begins with transformers imported: the import
takes longer than most of them.

    together.py PROGRAM.py ARGUMENTS.. [-- PROGRAM.py ARGUMENTS..]..

All of them run, whatever fails; exit code 1 if one does.
"""
import gc
import os
import pathlib
import runpy
import sys
import traceback

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read at the import

import torch  # noqa: E402, F401
import transformers.models.llama.modeling_llama  # noqa: E402, F401: most of transformers is imported by a model's module

# What was imported stays. Otherwise every collection goes through it, and writes to it, of which each process then needs a copy.
gc.collect()
gc.freeze()


def programs(arguments):
    """Lists of a program and its arguments."""
    found = [[]]
    for argument in arguments:
        if argument == "--":
            found.append([])
        else:
            found[-1].append(argument)
    return found


def exit_code(program):
    """Runs it as Python itself would."""
    sys.argv = program
    sys.path[0] = str(pathlib.Path(program[0]).parent)
    try:
        runpy.run_path(program[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return int(end.code or 0)
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001: it is the last one to see it
        traceback.print_exc()
        return 1
    return 0


def run(program):
    """Its exit code, of a process of its own. That ends at once: what LibTorch takes down by itself takes half a second."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = exit_code(program)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF or (1 if code else 0))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main():
    failed = []
    for program in programs(sys.argv[1:]):
        code = run(program)
        if code != 0:
            failed.append(f"{pathlib.Path(program[0]).name}: exit code {code}")
    for failure in failed:
        print("FAILED", failure, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if failed else 0)


if __name__ == "__main__":
    main()
