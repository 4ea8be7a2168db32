"""What a column says the texts of each row are to each other, as the number of a class."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.errors import UserError
from isospace.system.unicode import without_surrogates

ENTAILMENT = "entailment"
"""The label of texts that belong together, as corpora of inference name it."""


class Labels:
    """The labels of rows, as the rows come.

    Args:
        column: that holds them.
    """

    def __init__(self, column: str) -> None:
        self._column = column
        self._names: dict[str, int] = {}
        self._numbers = array("q")

    def add(self, value: Any, place: str) -> None:
        """The label of the next row.

        Args:
            value: as the file has it.
            place: the file and the line, for messages.

        Raises:
            UserError: it is missing or blank, or neither text nor a whole number.
        """
        label = without_surrogates(str(value).strip()) if isinstance(value, str | int) else ""
        if not label:
            raise UserError(
                f'{place}: "{self._column}" is {value!r}, expected a label, text or a whole '
                "number. Remove the row, or name another column with `label_column`."
            )
        self._numbers.append(self._names.setdefault(label, len(self._names)))

    def of(self, rows: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64]]:
        """The classes of these rows, sorted as text, and the number of each row's among them.

        >>> labels = Labels("label")
        >>> for value in ("neutral", "entailment", "contradiction", " neutral"):
        ...     labels.add(value, "pairs.csv:2")
        >>> classes, numbers = labels.of(np.array([0, 1, 3]))
        >>> classes, numbers.tolist()
        (['entailment', 'neutral'], [1, 0, 1])
        """
        found, numbers = np.unique(np.array(self._numbers)[rows], return_inverse=True)
        names = [list(self._names)[number] for number in found]
        order = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
        return [names[place] for place in order], np.argsort(order)[numbers]


def belonging(
    classes: Sequence[str], labels: NDArray[np.int64], wanted: str | None
) -> NDArray[np.bool_] | None:
    """Which rows have texts that belong together, (row,); `None` where no class says so.

    Args:
        classes: of the rows.
        labels: (row,) number of each row's class.
        wanted: the class whose texts belong together; `None`: entailment, if there is such a class.

    Raises:
        UserError: no row has the label that is wanted.

    >>> belonging(["contradiction", "entailment"], np.array([1, 0, 1]), None).tolist()
    [True, False, True]
    """
    if wanted is None and ENTAILMENT not in classes:
        return None
    if wanted is not None and wanted not in classes:
        raise UserError(
            f"`positive_label` {wanted}: no row has it. Labels: {', '.join(classes)[:300]}"
        )
    found: NDArray[np.bool_] = labels == classes.index(wanted or ENTAILMENT)
    return found
