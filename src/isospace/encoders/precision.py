"""The arithmetic of an encoder's matrix products; a module that needs nothing, for options."""

from typing import Literal

Precision = Literal["float32", "bf16"]
