# SPDX-License-Identifier: Apache-2.0
"""The parts of prepare_corpus.py and train.py."""
