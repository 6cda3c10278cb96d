"""Records a word-level transformer on the King James Version's Genesis: its embedding and its head
have a row a word.

    apt-get install bible-kjv          # the program `bible` and, as its dependency, bible-kjv-text
    python notebooks/record/record_transformer.py /tmp/transformer
    python notebooks/record/cut_trace.py /tmp/transformer notebooks/data/transformer --bytes 2000000

At every step most words are in no worker's mini-batch, and their rows of the embedding's gradient
are zero; many are in one worker's alone. Rows are in the order of how often a word occurs. On the
same versions of PyTorch and NumPy and the same kind of CPU a second run writes the same bytes.
"""

import collections
import re

import language

if __name__ == "__main__":
    folder, text = language.arguments_of(__doc__.splitlines()[0], "the trace")
    words = re.findall(r"\w+|[^\w\s]", text)
    counted = [
        word for word, _ in collections.Counter(words).most_common()
    ]  # of equals the first in the text first
    language.record(
        folder, words, counted, "record_transformer.py", 20220117, "words",
        steps=(0, 100, 400, 3000), rich_steps=(), context=32, width=32, heads=4, rate=2e-3, batch=4,
    )  # fmt: skip
