"""Sets and graphs of any size."""

from ._tuple_linear import TupleLinear as TupleLinear
