# SPDX-License-Identifier: Apache-2.0
"""Calls the `headscope` program: what it computes is not computed a second time here."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from headscope import errors

_ERRORS = {2: errors.UsageError, 3: errors.BadInputError, 4: errors.DeviceError}


def find():
    """The program: $HEADSCOPE where that is set, else the first `headscope` on the PATH."""
    named = os.environ.get("HEADSCOPE")
    found = shutil.which(named) if named else shutil.which("headscope")
    if found is None:
        where = f"$HEADSCOPE is {named}, which is no program" if named else "there is none on the PATH"
        raise errors.UsageError(f"the program headscope was not found ({where}); build it and set HEADSCOPE to build/release/headscope, or install it")
    return found


def run(*arguments):
    """Runs headscope and returns its stdout. A refusal is raised as the error whose exit code it has, with its own sentence."""
    done = subprocess.run([find(), *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sentence = done.stderr.strip().split("\n")[-1].removeprefix("headscope: ")
        raise _ERRORS.get(done.returncode, errors.FailedError)(sentence or f"headscope ended with code {done.returncode}")
    return done.stdout


def results(command, path, **options):
    """What a command writes as JSON. An option `max_rows=64` becomes --max-rows 64; a list gives the option once for each of its entries."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "results.json")
        arguments = [command, path, "--quiet", "-o", output]
        for name, value in options.items():
            option = "--" + name.replace("_", "-")
            for one in value if isinstance(value, (list, tuple)) else [value]:
                if one is True:
                    arguments.append(option)
                elif one is not False and one != "":
                    arguments += [option, one]
        run(*arguments)
        return json.loads(output.read_text())
