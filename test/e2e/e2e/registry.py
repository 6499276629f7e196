# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""The list of cases; each file `cases_*.py` adds its own."""

import dataclasses
import typing

CASES = []


class Skip(Exception):
    """Raised by a case that cannot run here, with the reason."""


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    tier: str
    about: str
    run: typing.Callable


def case(name, tier="full"):
    """Registers a case; the first line of its docstring says what it shows."""
    def add(function):
        CASES.append(Case(name, tier, function.__doc__.strip().splitlines()[0].rstrip("."), function))
        return function
    return add
