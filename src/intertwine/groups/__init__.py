"""Groups and their representations: any finite group, and the Lie groups of the field."""

from ._finite import FiniteGroup as FiniteGroup
from ._finite import Subgroup as Subgroup
from ._finite import SubgroupClass as SubgroupClass
from ._group import Element as Element
from ._group import Group as Group
from ._intertwiners import intertwiners as intertwiners
from ._intertwiners import permutation_intertwiners as permutation_intertwiners
from ._isomorphism import isomorphism as isomorphism
from ._isomorphism import structure_name as structure_name
from ._matrix_representation import MatrixRepresentation as MatrixRepresentation
from ._matrix_representation import PermutationRepresentation as PermutationRepresentation
from ._named import Alternating as Alternating
from ._named import Cyclic as Cyclic
from ._named import Dihedral as Dihedral
from ._named import Icosahedral as Icosahedral
from ._named import Octahedral as Octahedral
from ._named import Quaternion as Quaternion
from ._named import Symmetric as Symmetric
from ._named import Tetrahedral as Tetrahedral
from ._products import direct_product as direct_product
from ._products import semidirect_product as semidirect_product
from ._representation import Decomposition as Decomposition
from ._representation import Representation as Representation
from ._representation import content_digest as content_digest
from ._representation import direct_sum as direct_sum
from ._representation import require_same_group as require_same_group
