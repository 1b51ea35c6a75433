# SPDX-License-Identifier: Apache-2.0
"""Programs that record a model and then end as Python ends a program. What they import takes three seconds, so one process has it (this file, run as
`programs.py "" "" SOURCE SOCKET`) and forks for each of them."""
import gc
import json
import os
import signal
import socket
import subprocess
import sys

PATIENCE = 120 * int(os.environ.get("HEADSCOPE_TEST_PATIENCE", "1"))  # seconds, for the end of a program


class Program:
    """One that runs. `stdout`: what it prints, to be read while it runs as well."""

    def __init__(self, channel, script, argument):
        self._channel, (out, into), (errors, errors_into) = channel, os.pipe(), os.pipe()
        self.stdout, self._stderr = os.fdopen(out), os.fdopen(errors)
        socket.send_fds(channel, [json.dumps([script, str(argument)]).encode()], [into, errors_into])
        os.close(into)
        os.close(errors_into)
        self.pid = json.loads(channel.recv(100))

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def end(self):
        """Its exit code and what it wrote to stderr. One that does not end by itself is killed: TimeoutError."""
        try:
            code = json.loads(self._channel.recv(100))
        except TimeoutError:
            self.kill()
            json.loads(self._channel.recv(100))
            raise
        with self._stderr:
            return code, self._stderr.read()


class Programs:
    def __init__(self, source):
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(PATIENCE)
        self._server = subprocess.Popen([sys.executable, "-B", __file__, "", "", str(source), str(theirs.fileno())], pass_fds=[theirs.fileno()])
        theirs.close()

    def start(self, script, argument):
        """Begins a program of these lines, in which `torch`, `headscope`, `families` and `argument` are there. The one before must have ended."""
        return Program(self._channel, script, argument)

    def close(self):
        self._channel.close()
        self._server.wait()


def serve(channel):
    """Forks for every program that is asked for. Returns in the fork, with its lines and its argument; in this process at the end, with None."""
    while True:
        message, files, _, _ = socket.recv_fds(channel, 1 << 16, 2)
        if not message:
            return None
        child = os.fork()
        if child == 0:
            channel.close()
            for file, place in zip(files, (1, 2)):
                os.dup2(file, place)
                os.close(file)
            return json.loads(message)
        for file in files:
            os.close(file)
        channel.send(json.dumps(child).encode())
        channel.send(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[3] + "/python")
    import families
    import torch

    import headscope

    torch.set_num_threads(1)
    families.make("llama")  # the module of a model imports most of transformers
    gc.collect()
    gc.freeze()  # or every program's end goes through all that was imported
    asked = serve(socket.socket(fileno=int(sys.argv[4])))
    if asked is not None:
        exec(compile(asked[0], "program", "exec"), {"__name__": "__main__", "torch": torch, "headscope": headscope, "families": families, "argument": asked[1]})
