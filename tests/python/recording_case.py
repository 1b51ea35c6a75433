# SPDX-License-Identifier: Apache-2.0
"""What the tests of a recording share."""
import cases
import numpy as np
import torch

import headscope

IDS = torch.tensor([[5, 17, 8, 40, 23, 9, 61, 77, 12, 5, 17, 8, 33, 34, 35, 90, 4, 11, 13, 80, 29, 30, 31, 5]])
NUM_TOKENS = IDS.shape[1]


def values(path):
    """Everything in a trace that its tokens decide, by name."""
    with headscope.open(path) as trace:
        found = {"tokens": trace.tokens, "rows": trace.rows}
        for layer in trace.layers:
            facts = trace.facts(layer)
            for name, heads in (("q", facts.qo_heads), ("k", facts.kv_heads), ("v", facts.kv_heads), ("lse", facts.qo_heads)):
                for head in heads:
                    found[f"{name} {layer}:{head}"] = np.asarray(trace.tensor(name, layer, head))
        return found


class RecordingCase(cases.FolderCase):
    def setUp(self):
        self.path = self.folder / f"{self.id()}.h5"

    def whole(self, model, ids=IDS, **options):
        path = self.folder / f"{self.id()}-whole.h5"
        with torch.no_grad(), headscope.record(model, path, overwrite=True, **options):
            model(ids)
        return values(path)

    def assertSame(self, path, wanted, tolerance=1e-5):  # noqa: N802
        found = values(path)
        self.assertEqual(list(found), list(wanted))
        for name, one in wanted.items():
            np.testing.assert_allclose(found[name], one, rtol=tolerance, atol=tolerance, err_msg=name)
