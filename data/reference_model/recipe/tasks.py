# SPDX-License-Identifier: Apache-2.0
"""Synthetic tasks. Each maker returns (facts, questions): facts are (ids, kinds) lines, or lists of lines that keep their order; a question is
(index of the fact it asks for, line). `place` gives them times inside a sequence."""
import math

import numpy as np

from recipe.settings import KIND, TASK_SHARE

NOUNS = ["pass key", "magic number", "access code", "ticket number", "phone extension", "locker number", "serial number", "account number"]


def digits(rng, low=4, high=6):
    return "".join(map(str, rng.integers(0, 10, rng.integers(low, high + 1))))


def fresh_key(corpus, rng, used, style):
    """A key that the sequence does not hold yet: digits, digits5, hex or words."""
    makers = dict(digits=lambda: digits(rng), digits5=lambda: digits(rng, 5, 5), hex=lambda: "%08x" % rng.integers(0, 2**32),
                  words=lambda: " ".join(corpus.words[i] for i in rng.integers(0, len(corpus.words), 2)))
    while (key := makers[style]()) in used:
        pass
    used.add(key)
    return key


def needles(corpus, rng, count, asked, used, style=None, noun=None, question=None, exact=False):
    """'The NOUN for KEY is VALUE.' and questions for ASKED of them. EXACT marks the asked values, for measuring heads."""
    style = style or rng.choice(["digits", "digits", "words"])
    common = noun or (rng.choice(NOUNS) if rng.random() < 0.7 else None)
    rows = [(common or rng.choice(NOUNS), fresh_key(corpus, rng, used, style), digits(rng, 5, 5) if exact else digits(rng)) for _ in range(count)]
    chosen = rng.permutation(count)[:asked]
    facts, questions = [], []
    for i, (what, key, value) in enumerate(rows):
        head = f"The {what} for {key} is "
        span = (len(head) - 1, len(head) + len(value)) if exact and i in chosen else None
        facts.append(corpus.encode(f"{head}{value}.\n", asked=span))
    for i in chosen:
        what, key, value = rows[i]
        as_question = rng.random() < 0.5 if question is None else question
        head = f"Question: What is the {what} for {key}? Answer:" if as_question else f"The {what} for {key} is"
        questions.append((i, corpus.encode(f"{head} {value}.\n", (len(head), len(head) + 1 + len(value)), "needle")))
    return facts, questions


def records(corpus, rng, count, asked, used, style=None):
    """Lines {"key": K, "value": V} and look-ups {"get": K, "value": V}."""
    style = style or rng.choice(["digits", "hex", "words"])
    rows = [(fresh_key(corpus, rng, used, style), digits(rng, 5, 5)) for _ in range(count)]
    facts = [corpus.encode(f'{{"key": "{key}", "value": "{value}"}}\n') for key, value in rows]
    questions = []
    for i in rng.permutation(count)[:asked]:
        head = f'{{"get": "{rows[i][0]}", "value": "'
        questions.append((i, corpus.encode(f'{head}{rows[i][1]}"}}\n', (len(head), len(head) + 5), "kv")))
    return facts, questions


def chains(corpus, rng, count, hops, asked, used, form=None, exact=False):
    """Chains VAR A = 12345, VAR B = VAR A of HOPS (a number or a range) steps. A "trace" spells one backwards from a name, a "list" gives all names
    of a value, a "value" the value of a name. EXACT asks for the last name, else for any."""
    size = 3 if exact else rng.integers(2, 5)
    facts, made, questions = [], [], []
    for _ in range(count):
        steps = hops if isinstance(hops, int) else rng.integers(hops[0], hops[1] + 1)
        names = []
        while len(names) < steps + 1:
            name = "".join(chr(65 + letter) for letter in rng.integers(0, 26, size))
            if name not in used:
                used.add(name)
                names.append(name)
        value = fresh_key(corpus, rng, used, "digits5")
        lines = [f"VAR {names[0]} = {value}\n"] + [f"VAR {later} = VAR {earlier}\n" for earlier, later in zip(names, names[1:])]
        made.append((names, value))
        facts.append([corpus.encode(line) for line in lines])
    for i in rng.permutation(count)[:asked]:
        names, value = made[i]
        which = form or rng.choice(["trace", "list", "value"], p=[0.3, 0.5, 0.2])
        if which != "list" and not exact:
            names = names[:rng.integers(1 if which == "value" or len(names) == 1 else 2, len(names) + 1)]
        head, tail = {
            "trace": (f"Trace: VAR {names[-1]}", "".join(f" = VAR {name}" for name in names[-2::-1]) + f" = {value}"),
            "list": (f"Question: Which variables hold {value}? Answer:", " " + ", ".join(names) + "."),
            "value": (f"Question: What is the value of VAR {names[-1]}? Answer:", f" {value}"),
        }[which]
        questions.append((i, corpus.encode(f"{head}{tail}\n", (len(head), len(head) + len(tail)), "vt_" + which)))
    return facts, questions


def repeats(corpus, rng, size, random_tokens, cue):
    """A chunk of SIZE tokens and, later, the same chunk: its first CUE tokens are given, the rest is the answer."""
    if random_tokens:
        ids = np.append(rng.choice(corpus.plain, size).astype(np.uint16), np.uint16(corpus.newline))
    else:
        ids = corpus.lines(rng, size)
    first = np.full(len(ids), KIND["scaffold" if random_tokens else "prose"], np.uint8)
    again = np.full(len(ids), KIND["repeat_random" if random_tokens else "repeat_prose"], np.uint8)
    again[:cue] = KIND["scaffold"]
    if random_tokens:
        again[-1] = KIND["scaffold"]
    return [(ids, first)], [(0, (ids, again))]


def place(rng, facts, questions, block, tail):
    """Items for Corpus.sequence. BLOCK puts all facts at one time; TAIL puts the questions at the end, else each comes after its fact."""
    items, known_at, together = [], [], rng.random() * 0.8
    for fact in facts:
        lines = fact if isinstance(fact, list) else [fact]
        times = np.sort(rng.random(len(lines)) * 0.98) if not block else np.full(len(lines), together)
        items += [(when, *line) for when, line in zip(times, lines)]
        known_at.append(times[-1])
    for i, line in questions:
        later = known_at[i] + (1 - known_at[i]) * (0.02 + 0.98 * rng.random())
        items.append((1.0 if tail else later, *line))
    return items


def log_uniform(rng, low, high):
    return int(math.exp(rng.uniform(math.log(low), math.log(max(low, high) + 0.99))))


def random_task(corpus, rng, left, limit, used):
    """One task that takes up at most about LIMIT of the LEFT tokens, and whether its facts may stand in one block."""
    task = rng.choice(["needle", "kv", "vt", "repeat"], p=[0.22, 0.22, 0.3, 0.26])
    if task == "repeat":
        return repeats(corpus, rng, log_uniform(rng, 16, min(256, left * limit / 2)), rng.random() < 0.6, 4), False
    most = {"needle": min(64, left * limit / 30), "kv": min(256, left * limit / 36), "vt": min(12, left * limit / 80)}[task]
    count = log_uniform(rng, max(2 if task == "kv" else 1, most / 6), most)
    if task == "needle":
        return needles(corpus, rng, count, rng.integers(1, count + 1), used), False
    if task == "kv":
        return records(corpus, rng, count, rng.integers(1, min(count, 64) + 1), used), rng.random() < 0.4
    hops = (1, (4 if left > 120 else 1) if rng.random() < 0.6 else 2)
    return chains(corpus, rng, count, hops, rng.integers(1, count + 1), used), False


def training_sequence(corpus, rng, length):
    items, used, total = [], set(), 0
    if rng.random() < TASK_SHARE:
        room, limit = length * rng.uniform(0.05, 0.6), rng.uniform(0.2, 1)
        for _ in range(24):
            if room - total < 80:
                break
            (facts, questions), block = random_task(corpus, rng, room - total, limit, used)
            new = place(rng, facts, questions, block, tail=rng.random() < 0.5)
            size = sum(len(ids) for _, ids, _ in new)
            if total + size <= 0.7 * length:
                items, total = items + new, total + size
    return corpus.sequence(rng, length, items)


EVALUATIONS = {
    "passkey, 16 distractors": lambda c, r: needles(c, r, 17, 1, set(), "digits5", "pass key", False, True),
    "passkey, 16 distractors, as a question": lambda c, r: needles(c, r, 17, 1, set(), "digits5", "pass key", True, True),
    "word keys, 16 distractors": lambda c, r: needles(c, r, 17, 1, set(), "words", "access code", False, True),
    "key-value, 32 pairs": lambda c, r: records(c, r, 32, 1, set(), "digits5"),
    "key-value, 128 pairs": lambda c, r: records(c, r, 128, 1, set(), "digits5"),
    **{f"variables, {hops} hop{'s' * (hops > 1)}, {form}": lambda c, r, hops=hops, form=form: chains(c, r, 5, hops, 1, set(), form, True)
       for form, hops in (("list", 2), ("list", 4), ("trace", 2), ("trace", 4), ("value", 1), ("value", 2), ("value", 4))},
    "repetition, 64 random tokens": lambda c, r: repeats(c, r, 64, True, 4),
    "repetition, 64 tokens of prose": lambda c, r: repeats(c, r, 64, False, 8),
}


def evaluation_set(corpus, name, length, samples):
    """SAMPLES sequences of LENGTH that end in one question; the facts lie uniformly in the held-out text before it."""
    rng = np.random.default_rng([length, list(EVALUATIONS).index(name)])
    made = [EVALUATIONS[name](corpus, rng) for _ in range(samples)]
    rows = [corpus.sequence(rng, length, place(rng, *task, block=False, tail=True)) for task in made]
    return np.stack([ids for ids, _ in rows]), np.stack([kinds for _, kinds in rows])
