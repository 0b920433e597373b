"""Finite groups by their Cayley tables: subgroups, irreps, products and named groups."""

from ._finite_group import FiniteGroup as FiniteGroup
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
from ._subgroup import Subgroup as Subgroup
from ._subgroup_classes import SubgroupClass as SubgroupClass
