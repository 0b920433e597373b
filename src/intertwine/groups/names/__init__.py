"""Groups, representations and subgroups by name."""

from ._groups import parse as parse
from ._groups import parse_finite as parse_finite
from ._representations import parse_representation as parse_representation
from ._representations import parse_subgroup as parse_subgroup
