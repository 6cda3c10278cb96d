"""Every label of every plot can be read: inside the figure, over no other, in contrast with what is
behind it; and no mark leaves its axes."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import apscope
from apscope import plots
from tests.python.drawn_labels import OF_MANY, OF_ONE, faults

SCHEMES = ["none:fp32", "none:e4m3", "aps:e4m3fn,rule=tight", "aps:e2m1fn,rule=tight,unit=16",
           "loss_scaling:e3m4,scale=best,overflow=saturate", "mx:block_format=mxfp4", "qsgd"]  # fmt: skip


@pytest.fixture(scope="module", params=["digits", "gpt"])
def results(request):
    path = request.config.rootpath / "notebooks/data" / request.param
    steps = apscope.open_trace(path).steps
    some = sorted({steps[i] for i in (0, 1, len(steps) // 2, -2, -1)})
    return apscope.replay(path, SCHEMES, steps=some, topology=["ring", "two_phase", "tree"])


@pytest.fixture(scope="module")
def trace(request, results):
    name = results.frame["trace"].iloc[0]
    return apscope.open_trace(request.config.rootpath / "notebooks/data" / name)


def drawn(results, trace, name):
    """The Axes of a plot, of every scheme that it can be of."""
    plot = getattr(plots, name)
    if name == "nmse_against_cost":
        return [plot(results, against=against, error=error)
                for against in ("volume", "time") for error in ("step_nmse", "error_over_noise")]  # fmt: skip
    if plot in OF_ONE:
        return [plot(results, scheme) for scheme in SCHEMES]
    if plot in OF_MANY:
        return [plot(results), plot(results, SCHEMES[:3])]
    if name == "nmse_ratio":
        return [plot(results, SCHEMES[2], SCHEMES[3]), plot(results, SCHEMES[1], SCHEMES[2])]
    if name in ("exponent_histogram", "exponents_by_layer"):
        return [plot(results, "e4m3"), plot(results, scheme=SCHEMES[2]), plot(results, "e5m2")]
    if name == "ladder":
        return [plot(apscope.ladder(trace, ["e4m3fn", "e3m4", "e2m1fn"]))]
    assert name == "limit"
    return [plot(apscope.limit(trace, steps=[int(results.frame["step"].iloc[0])]))]


@pytest.mark.parametrize("name", plots.__all__)
def test_every_label_of_a_plot_can_be_read(results, trace, name):
    found = [faults(ax.figure) for ax in drawn(results, trace, name)]
    assert found == [[]] * len(found)


@pytest.mark.parametrize(
    "change, kind",
    [
        (lambda ax: None, None),
        (lambda ax: ax.text(0.9, 0.5, "far beyond the figure"), "outside"),
        (lambda ax: ax.text(0.12, 0.5, "over it"), "overlap"),
        (lambda ax: ax.axvspan(0, 1, color="#300"), "faint"),
        (lambda ax: ax.plot([0.5], [2.0], "o"), "cut"),
    ],
)
def test_the_check_finds_what_cannot_be_read(change, kind):
    figure = Figure(figsize=(4, 3))
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.text(0.1, 0.5, "a label")
    change(ax)
    assert {fault.split(":")[0] for fault in faults(figure)} == ({kind} if kind else set())
