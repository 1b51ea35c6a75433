# SPDX-License-Identifier: Apache-2.0
"""What a call of the model's generate() says of its passes: it hands the rest on to the model only in another form, or in pieces."""
import dataclasses

import torch


@dataclasses.dataclass
class Generation:
    ids: torch.Tensor | None  # [sequences, tokens] of a decoder's prompts
    mask: torch.Tensor | None  # [sequences, tokens]
    end_ids: frozenset  # a sequence that chooses one of these has ended; in a batch it goes on with padding until the others have, too

    @classmethod
    def of(cls, model, arguments, options):
        """Of generate(*arguments, **options)."""
        ids = arguments[0] if arguments else next((options[name] for name in ("inputs", "input_ids") if options.get(name) is not None), None)
        if model.config.is_encoder_decoder:  # the encoder's
            ids = None
        ids, mask = (one if torch.is_tensor(one) and one.ndim == 2 else None for one in (ids, options.get("attention_mask")))
        return cls(ids, mask, _end_ids(model, arguments, options))

    @property
    def width(self):
        """Columns of the prompts as far as they are known."""
        return 0 if self.ids is None else self.ids.shape[1]


def _end_ids(model, arguments, options):
    """An argument, None included, comes before the configuration that is given, and that before the model's own."""
    found = options.get("eos_token_id")
    if "eos_token_id" not in options:
        given = arguments[1] if len(arguments) > 1 else options.get("generation_config")
        found = getattr(given, "eos_token_id", None)
        if found is None:
            found = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if found is None:
        return frozenset()
    return frozenset(int(one) for one in torch.as_tensor(found).flatten())
