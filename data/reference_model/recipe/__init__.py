"""The parts of prepare_corpus.py and train.py."""
