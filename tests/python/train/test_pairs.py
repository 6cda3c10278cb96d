"""Byte-pair encoding: against a plain count of all pairs, and what a text's tokens must satisfy."""

import itertools
import random

import pytest

from apscope._training.pairs import _WORD, tokens


def plain(text, vocabulary):
    """Every pair is counted again for each token that is made."""
    alphabet = sorted(set(text))
    words = [[alphabet.index(letter) for letter in word] for word in _WORD.findall(text)]
    made = len(alphabet)
    while made < vocabulary:
        counts = {}
        for word in words:
            for pair in itertools.pairwise(word):
                counts[pair] = counts.get(pair, 0) + 1
        if not counts or max(counts.values()) < 2:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        for word in words:
            place = 0
            while place < len(word) - 1:
                if (word[place], word[place + 1]) == best:
                    word[place : place + 2] = [made]
                place += 1
        made += 1
    return [token for word in words for token in word], made


def some_text(seed):
    draw = random.Random(seed)
    words = ["".join(draw.choices("abc_1é", k=draw.randint(1, 6))) for _ in range(30)]
    return "".join(
        draw.choice(words) + draw.choice([" ", "  ", "\n\t", ".", ""]) for _ in range(200)
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("vocabulary", [20, 60, 400])
def test_the_tokens_are_those_of_a_plain_count(seed, vocabulary):
    text = some_text(seed)
    assert tokens(text, vocabulary) == plain(text, vocabulary)


def test_every_character_belongs_to_a_word():
    text = some_text(0) + "_²x 12 \u00a0\u3000 end \n"
    assert "".join(_WORD.findall(text)) == text


def test_a_text_without_a_pair_twice_keeps_its_characters():
    assert tokens("abc", 100) == ([0, 1, 2], 3)
    assert tokens("", 100) == ([], 0)


def test_a_vocabulary_below_the_alphabet_is_refused():
    with pytest.raises(ValueError, match="5 different characters; a vocabulary of 4 has no room"):
        tokens("abcde", 4)
