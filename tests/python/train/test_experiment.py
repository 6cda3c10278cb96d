"""An experiment's file: its optional keys, and one sentence for every error."""

import json
import math

import pytest

from apscope._training.experiment import TASKS, Experiment

WHOLE = """
gate = 0.02
seeds = 5
workers = 4
topology = "tree"
formats = ["e4m3", "e3m0"]
schemes = ["aps:{format}", "error_feedback(aps:{format})", "none:fp16", "none:fp32"]

[[task]]
name = "digits"

[[task]]
name = "characters"
model = "lstm"
steps = 40
warmup = 4
decay = "linear"
text = "python"
"""


@pytest.fixture
def opened(tmp_path):
    def open_text(text):
        path = tmp_path / "experiment.toml"
        path.write_text(text)
        return Experiment.open(path)

    return open_text


def refused(opened, text, said):
    with pytest.raises(ValueError, match=said) as error:
        opened(text)
    assert "\n" not in str(error.value) and "experiment.toml: " in str(error.value)


def test_a_file_says_what_differs_from_its_tasks_defaults(opened):
    e = opened(WHOLE)
    assert [one.scheme for one in e.exchanges] == [
        "aps:e4m3", "aps:e3m0", "error_feedback(aps:e4m3)", "error_feedback(aps:e3m0)", "none:fp16",
    ]  # fmt: skip
    assert {one.topology for one in (*e.exchanges, *e.baselines)} == {"tree"}
    assert e.seeds == (0, 1, 2, 3, 4) and e.gate == 0.02 and e.workers == 4
    assert e.tasks[0] == TASKS["digits"]["convolutional"]
    assert e.tasks[1].steps == 40 and e.tasks[1].optimizer == "adam" and e.tasks[1].text == "python"
    assert Experiment.of_json(e.as_json()) == e


def test_the_rate_warms_up_and_decays(opened):
    linear = opened(WHOLE).tasks[1]
    top = linear.learning_rate
    assert [linear.rate(s) / top for s in range(4)] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert [linear.rate(s) / top for s in (4, 22, 39)] == pytest.approx([1, 0.5, 1 / 36])
    cosine = TASKS["digits"]["convolutional"]
    assert cosine.rate(0) == cosine.learning_rate
    assert cosine.rate(cosine.steps // 2) == pytest.approx(cosine.learning_rate / 2)
    assert 0 < cosine.rate(cosine.steps - 1) < 1e-4 * cosine.learning_rate
    rates = [cosine.rate(s) for s in range(cosine.steps)]
    assert rates == sorted(rates, reverse=True) and all(map(math.isfinite, rates))


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("gate = 0.02", "gates = 0.02", "gates is unknown; did you mean 'gate'?"),
        ("gate = 0.02", "", "it has no gate; docs/training.md shows an experiment"),
        ("gate = 0.02", "gate = 0", "gate=0 must be a number of nats above 0"),
        ("gate = 0.02", "gate = nan", "gate=nan must be"),
        ("seeds = 5", "seeds = 0", "seeds=0 must be how many"),
        ("seeds = 5", "seeds = [1, 1]", "seeds=\\[1, 1\\] must be"),
        ("workers = 4", "workers = 1", "workers=1 must be an integer of 2 to 1048576"),
        ("workers = 4", "workers = 3", "task.batch=64 cannot be divided among 3 workers"),
        ('"digits"', '"digit"', "task.name='digit' is unknown; did you mean 'digits'?"),
        ('"lstm"', '"gru"', "task.model='gru' is unknown; there are transformer, lstm"),
        ("warmup = 4", "warm = 4", "task.warm is unknown; did you mean 'warmup'?"),
        ("warmup = 4", "warmup = 41", "task.warmup=41 is more than the 40 steps"),
        ("warmup = 4", "momentum = 0.5", "task.momentum is a key of sgd and lars, not of adam"),
        ("warmup = 4", 'called = "A b"', "task.called='A b' must be a name of at most 40"),
        ('"linear"', '"step"', "task.decay='step' must be one of cosine, linear, none"),
        (
            'name = "digits"',
            'name = "digits"\ntext = "x"',
            "task.text is a key of the tasks characters and tokens, not of digits",
        ),
        ("steps = 40", "steps = true", "task.steps=True must be an integer"),
        ('"e3m0"]', '"e3m99"]', "e3m99"),
        ('"aps:{format}"', '"apps:{format}"', "apps"),
        ('formats = ["e4m3", "e3m0"]', "", "has {format}, but there are no formats"),
        ('[[task]]\nname = "digits"', "task = 3", "experiment.toml: "),
        ('name = "characters"\nmodel = "lstm"', 'name = "digits"', "task.text is a key of"),
    ],
)
def test_what_cannot_be_is_refused(opened, old, new, said):
    assert old in WHOLE
    refused(opened, WHOLE.replace(old, new, 1), said)


def test_a_task_may_stand_twice_under_two_names(opened):
    text = 'gate = 1\nseeds = 1\nschemes = ["none:fp16"]\n[[task]]\nname = "digits"\n'
    two = opened(text + '[[task]]\nname = "digits"\ncalled = "digits-lars"\noptimizer = "lars"\n')
    assert [task.label for task in two.tasks] == [
        "digits convolutional",
        "digits-lars convolutional",
    ]
    assert two.tasks[1].momentum == 0.9 and Experiment.of_json(two.as_json()) == two


OWN = """
gate = 1
seeds = 1
formats = ["e4m3"]
schemes = [
    "aps:{format}",
    {scheme = "aps:{format}", topology = "two_phase"},
    {scheme = "aps:{format}", topology = "two_phase,sum=exact"},
    {scheme = "none:bf16", topology = "ring"},
    {scheme = "none:bf16", topology = "two_phase"},
]
[[task]]
name = "digits"
"""


def test_a_scheme_may_have_a_topology_of_its_own(opened):
    e = opened(OWN)
    assert e.baselines == (("none:fp32", "ring"), ("none:bf16", "ring"))
    assert e.exchanges == (
        ("aps:e4m3", "ring"), ("aps:e4m3", "two_phase"), ("aps:e4m3", "two_phase,sum=exact"),
        ("none:bf16", "two_phase"),
    )  # fmt: skip
    assert Experiment.of_json(json.loads(json.dumps(e.as_json()))) == e


def test_an_experiment_whose_schemes_had_one_topology_is_read_as_it_was(opened):
    e = opened(WHOLE)
    told = json.loads(json.dumps(e.as_json()))
    told["specs"] = [scheme for scheme, _ in told.pop("exchanges")]
    assert Experiment.of_json(told) == e


@pytest.mark.parametrize(
    "entry, said",
    [
        ('{scheme = "aps:e4m3"}', "a table of schemes has no topology; give it, or the spec alone"),
        ('{topology = "two_phase"}', "a table of schemes has no scheme"),
        (
            '{scheme = "aps:e4m3", topologies = "ring"}',
            "schemes.topologies is unknown; did you mean 'topology'?",
        ),
        ('{scheme = "aps:e4m3", topology = 3}', "schemes.topology=3 must be a text"),
        ('{scheme = "aps:e4m3", topology = "two_phases"}', "two_phases"),
        ('{scheme = "apps:e4m3", topology = "two_phase"}', "apps"),
        ("3", r"schemes=\[3\] must be a list of specs, or of tables"),
        (
            '{scheme = "none:fp32", topology = "two_phase"}',
            "none:fp32 is what the others are compared with, in the experiment's topology 'ring'",
        ),
    ],
)
def test_tables_of_schemes_that_are_refused(opened, entry, said):
    refused(opened, f'gate = 1\nseeds = 1\nschemes = [{entry}]\n[[task]]\nname = "digits"\n', said)


def test_a_task_twice_and_formats_for_nothing_are_refused(opened):
    head, task = 'gate = 1\nseeds = 1\nschemes = ["none:fp16"]\n', '[[task]]\nname = "digits"\n'
    refused(opened, head + 2 * task, "a task occurs twice with the same model")
    some = 'formats = ["e4m3"]\n'
    refused(opened, some + head + task, "formats are given, but no scheme has {format}")
