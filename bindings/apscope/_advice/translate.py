"""A plan's layers in the syntax of other tools, as a starting point.

A plan is about gradients on the wire; those tools are about matrix products.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._schemes.scheme import as_scheme
from ..hybrid import exactly

#: Of `apscope recommend --as`.
TOOLS = ("te", "torchao", "regex")

#: The 8-bit formats that both libraries have.
_FLOAT8 = ("e4m3fn", "e5m2")

_TE = '''# For TransformerEngine: CustomRecipe(qfactory=qfactory), transformer_engine.common.recipe. The formats that an
# apscope plan uses on the wire for gradients of a module's weight; other modules are unchanged.
FORMATS = {{
{rows}}}


def qfactory(role):
    """The quantizer of a tensor, by its module's name; None: not quantized."""
    name = FORMATS.get(role.name)
    if name is None:
        return None
    import transformer_engine.pytorch as te

    kinds = {{"e4m3fn": te.DType.kFloat8E4M3, "e5m2": te.DType.kFloat8E5M2}}
    return te.Float8CurrentScalingQuantizer(fp8_dtype=kinds[name], device="cuda")
'''
_TORCHAO = '''# For torchao.float8: convert_to_float8_training(model, module_filter_fn=module_filter_fn). The modules
# whose weight gradients an apscope plan sends in 8 bits; the others are unchanged.
FLOAT8 = {{
{rows}}}


def module_filter_fn(module, fqn):
    """Whether a module is converted."""
    return fqn in FLOAT8
'''


def written(tool: str, layers: Sequence[tuple[str, str]]) -> str:
    """The text.

    Parameters
    ----------
    tool : {"te", "torchao", "regex"}
    layers : sequence of pairs
        A tensor's name and its scheme's spec.

    Raises
    ------
    ValueError
        An unknown tool; for the first two, no weight with a scheme of their formats.
    """
    if tool not in TOOLS:
        raise ValueError(f"plans cannot be written for '{tool}'; use one of {', '.join(TOOLS)}")
    if tool == "regex":
        return "".join(
            f"{exactly([name]).removeprefix('name:')}  {spec}\n" for name, spec in layers
        )
    rows = "".join(f"    {module!r}: {form!r},\n" for module, form in _modules(layers))
    if not rows:
        raise ValueError(
            f"'{tool}' has only {' and '.join(_FLOAT8)}, and the plan sends no weight's gradient in "
            "either; make one of candidates in these formats, such as aps:e4m3fn,rule=tight"
        )
    return (_TE if tool == "te" else _TORCHAO).format(rows=rows)


def _modules(layers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The modules whose weight has one of the two formats."""
    found = []
    for name, spec in layers:
        module, _, last = name.rpartition(".")
        form = as_scheme(spec).format
        if last == "weight" and form in _FLOAT8:
            found.append((module, form))
    return found
