"""Which output of a network to look at, if it has several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from ...errors import InputError


def chosen(names: Sequence[str], output: str | int) -> str:
    """The name of an output that is given by name or by number, counted from 0."""
    text = str(output)
    if text in names:
        return text
    if text.isdecimal() and int(text) < len(names):
        return names[int(text)]
    raise InputError(
        "--output",
        expected=f"one of {', '.join(names)}, or a number from 0 to {len(names) - 1}",
        got=repr(output),
    )


class OneOutput(nn.Module):
    """A network that returns a tuple, a list or a dictionary, reduced to one of its outputs.

    Args:
        network: the network.
        output: a key of the dictionary, or a number counted from 0.
    """

    def __init__(self, network: nn.Module, output: str | int) -> None:
        super().__init__()
        self.network, self.output = network, output

    def forward(self, x: Tensor) -> object:
        """The chosen output."""
        out = self.network(x)
        if isinstance(out, Tensor):
            out = (out,)
        if isinstance(out, Mapping):
            return out[chosen([str(key) for key in out], self.output)]
        if isinstance(out, tuple | list):
            return out[int(chosen([str(k) for k in range(len(out))], self.output))]
        raise InputError(
            "--output", expected="a network that returns a tuple, a list or a dictionary", got=type(out).__name__
        )
