# SPDX-License-Identifier: Apache-2.0
"""Records the attention heads of any model of transformers into headscope's traces, and reads them.

    import headscope

    with headscope.record(model, "out.h5"):
        model(input_ids)

    trace = headscope.open("out.h5")
    trace.q(layer=0, head=3)

docs/python.md is the manual, docs/trace_format.md the file.
"""
from headscope.errors import BadInputError, DeviceError, FailedError, HeadscopeError, UsageError
from headscope.reader import Trace
from headscope.reader import open_trace as open  # noqa: A004: the module's own name for it, as in h5py and gzip

__all__ = ["BadInputError", "DeviceError", "FailedError", "HeadscopeError", "Trace", "UsageError", "open", "record"]


def record(*arguments, **options):
    """See headscope.recorder.record. Torch and transformers are imported by the first call: reading traces needs neither."""
    from headscope import recorder

    return recorder.record(*arguments, **options)
