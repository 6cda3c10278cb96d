from . import Case

CASES: list[Case] = []
