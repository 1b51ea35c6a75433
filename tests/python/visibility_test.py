# SPDX-License-Identifier: Apache-2.0
"""What a row sees, which its mask must say and its log-sum-exp counts, and which kernels are asked for that."""
import types
import unittest
from unittest import mock

import cases
import torch

from headscope import interception, layout, visibility


class Visibility(cases.FolderCase):
    """visibility.py in blocks of a few scores, against a mask and sums of everything at once."""

    CASES = (dict(), dict(window=5), dict(chunk=4), dict(bidirectional=1), dict(soft_cap=3.0), dict(window=1))

    def setUp(self):
        self.blocks = dict(visibility._BLOCK_SCORES)
        visibility._BLOCK_SCORES.update(cpu=40)

    def tearDown(self):
        visibility._BLOCK_SCORES.update(self.blocks)

    def seen(self, facts, total, pad, end):
        """Which columns each column sees, one by one."""
        result = torch.zeros(total, total, dtype=torch.bool)
        for row in range(pad, end):
            for column in range(pad, end):
                block = (row - pad) // facts.chunk == (column - pad) // facts.chunk if facts.chunk else True
                result[row, column] = bool(facts.bidirectional) or (column <= row and (not facts.window or row - column < facts.window) and block)
        return result

    def test_log_sum_exp_and_masks(self):
        generator = torch.Generator().manual_seed(1)
        total, past = 23, 9
        for more in self.CASES:
            for pad, offset in ((0, 0), (4, 0), (0, 3)):
                if offset and (not more.get("window") or past - offset < more["window"] - 1):
                    continue  # a cache that forgot what is still seen
                with self.subTest(f"{more} pad {pad} offset {offset}"):
                    facts = layout.LayerFacts(6, 2, 8, 8, (0, 2, 5), (0, 1), 0.7, **more)
                    rows = torch.tensor([9, 10, 12, 13, 14, 18, 22])
                    keys = visibility.Keys(offset, total - offset, total, pad, total)
                    q, k = torch.randn(3, 7, 8, generator=generator), torch.randn(2, total - offset, 8, generator=generator)
                    seen = self.seen(facts, total, pad, total)
                    scores = 0.7 * q @ k[[0, 0, 1]].transpose(1, 2)
                    if facts.soft_cap:
                        scores = facts.soft_cap * torch.tanh(scores / facts.soft_cap)
                    wanted = torch.logsumexp(scores.masked_fill(~seen[rows][:, offset:], -torch.inf), -1)
                    torch.testing.assert_close(visibility.log_sum_exp(q, k, facts, facts.qo_heads, facts.kv_heads, rows, keys), wanted)
                    mask = seen[past:, offset:][None, None]
                    added = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
                    for one in (mask, added):
                        self.assertEqual(visibility.mask_problem("eager", facts, one, {}, True, rows, past, keys, 0, False), "")
                    for row, column in ((18, 18), (22, 22), (13, 13)):
                        other = mask.clone()
                        other[0, 0, row - past, column - offset] = False
                        self.assertIn("attention_mask", visibility.mask_problem("sdpa", facts, other, {}, True, rows, past, keys, 0, False))
                        self.assertEqual(visibility.mask_problem("sdpa", facts, other, {}, True, rows, past, keys, 0, True), "")

    def test_calls_without_a_mask(self):
        rows = torch.arange(9)
        whole, one_more = visibility.Keys(0, 9, 9, 0, 9), visibility.Keys(0, 10, 10, 0, 10)
        plain, window, both = (layout.LayerFacts(2, 2, 8, 8, (0, 1), (0, 1), 1.0, **more) for more in (dict(), dict(window=4), dict(bidirectional=1)))

        def problem(name, facts, causal, rows=rows, keys=whole, mask=None, **options):
            return visibility.mask_problem(name, facts, mask, options, causal, rows, int(rows[0]), keys, 0, False)

        self.assertEqual(problem("sdpa", plain, True), "")
        self.assertIn("comes after", problem("eager", plain, True))
        self.assertTrue(problem("sdpa", plain, False))
        self.assertEqual(problem("eager", plain, True, rows=torch.tensor([9]), keys=one_more), "")
        self.assertTrue(problem("sdpa", window, True))
        self.assertTrue(problem("sdpa", window, True, rows=torch.tensor([9]), keys=one_more))
        self.assertEqual(problem("sdpa", window, True, rows=torch.arange(3), keys=visibility.Keys(0, 3, 3, 0, 3)), "")
        self.assertEqual(problem("flash_attention_2", window, True, sliding_window=4), "")
        self.assertTrue(problem("flash_attention_2", window, True))
        self.assertTrue(problem("flash_attention_2", plain, False))
        self.assertEqual(problem("sdpa", both, False), "")
        self.assertEqual(problem("eager", both, False), "")
        self.assertTrue(problem("sdpa", both, True))
        padded = visibility.Keys(0, 9, 9, 2, 9)
        self.assertEqual(problem("flash_attention_2", plain, True, rows=rows[2:], keys=padded, mask=torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1]])), "")
        self.assertTrue(problem("flash_attention_2", plain, True, rows=rows[2:], keys=padded, mask=torch.tensor([[0, 1, 1, 1, 1, 1, 1, 1, 1]])))
        self.assertTrue(problem("sdpa", plain, True, rows=rows[2:], keys=padded))
        self.assertIn("flex", problem("flex_attention", plain, True))


class MayTell:
    """A kernel like those of GPUs, which make a log-sum-exp on request; its output is another by a bit where it was asked, if it `changes`."""

    _schema = types.SimpleNamespace(
        arguments=[types.SimpleNamespace(name=name) for name in ("query", "key", "value", "attn_bias", "compute_log_sumexp", "scale")]
    )

    def __init__(self, changes):
        self.changes, self.runs = changes, 0

    def __call__(self, query, key, value, attn_bias, compute_log_sumexp, scale):
        self.runs += 1
        scores = query @ key.mT * scale
        output = scores.softmax(-1) @ value
        if compute_log_sumexp and self.changes:
            output = torch.nextafter(output, torch.zeros_like(output))
        # Rows are filled up, as some kernels do.
        return output, torch.nn.functional.pad(scores.logsumexp(-1), (0, 3)) if compute_log_sumexp else query.new_empty(0)


class KernelsLse(unittest.TestCase):
    """A log-sum-exp that a kernel makes on request is asked for where the model gets the same bits, and nowhere else."""

    def told(self, changes, bias=None, asked=False, rows=(5, 5)):
        """Whether each call's sum was told, and how often the last of them ran the kernel."""
        kernel, found = MayTell(changes), []
        with mock.patch.object(interception, "_ON_REQUEST", (kernel,)):
            for count in rows:
                q, k, v = torch.randn(3, 2, 4, count, 8)
                plain = kernel(q, k, v, bias, asked, 0.25)[0]
                kernel.runs = 0
                kernels = interception._KernelsLse()
                output = kernels.__torch_dispatch__(kernel, (), (q, k, v, bias, asked, 0.25))[0]
                self.assertTrue(torch.equal(output, plain))
                lse = kernels.of(q)
                if lse is not None:
                    torch.testing.assert_close(lse, (q @ k.mT * 0.25).logsumexp(-1))
                found.append(lse is not None)
        return found, kernel.runs

    def test_it_is_asked_for(self):
        self.assertEqual(self.told(changes=False, rows=(5, 5, 3, 5)), ([True] * 4, 1))

    def test_a_single_row_costs_less_than_asking(self):
        self.assertEqual(self.told(changes=False, rows=(1,)), ([False], 1))

    def test_a_kernel_whose_output_changes_is_left_alone(self):
        self.assertEqual(self.told(changes=True), ([False, False], 1))  # the first call of the shape said so

    def test_what_the_model_asks_for_itself_is_taken(self):
        self.assertEqual(self.told(changes=True, asked=True)[0], [True, True])

    def test_a_bias_is_left_alone(self):
        self.assertEqual(self.told(changes=False, bias=torch.zeros(5, 5))[0], [False, False])


if __name__ == "__main__":
    cases.main()
