"""Groups and their representations: any finite group, and the Lie groups of geometry.

The files at the top define groups, representations and intertwiners. The sub-packages come in this order, and
each imports only those before it.

    special   spherical harmonics, Wigner matrices, Clebsch-Gordan coefficients
    finite    Cayley tables, subgroups, irreps, products, groups with a name
    lie       SO(2), O(2), SO(3), O(3), and the motions of Euclidean space
    names     groups, representations and subgroups from text
    tensors   tensors with index symmetries
"""

from ._catalog import GROUPS as GROUPS
from ._catalog import NamedGroup as NamedGroup
from ._catalog import register_group as register_group
from ._group import Element as Element
from ._group import Group as Group
from ._intertwiners import intertwiners as intertwiners
from ._intertwiners import permutation_intertwiners as permutation_intertwiners
from ._representation import Decomposition as Decomposition
from ._representation import Representation as Representation
from ._representation import Term as Term
from ._representation import direct_sum as direct_sum
from .finite._finite_group import FiniteGroup as FiniteGroup
from .finite._isomorphism import isomorphism as isomorphism
from .finite._isomorphism import structure_name as structure_name
from .finite._matrix_representation import MatrixRepresentation as MatrixRepresentation
from .finite._matrix_representation import PermutationRepresentation as PermutationRepresentation
from .finite._named import Alternating as Alternating
from .finite._named import Cyclic as Cyclic
from .finite._named import Dihedral as Dihedral
from .finite._named import Icosahedral as Icosahedral
from .finite._named import Octahedral as Octahedral
from .finite._named import Quaternion as Quaternion
from .finite._named import Symmetric as Symmetric
from .finite._named import Tetrahedral as Tetrahedral
from .finite._products import direct_product as direct_product
from .finite._products import semidirect_product as semidirect_product
from .finite._subgroup import Subgroup as Subgroup
from .finite._subgroup_classes import SubgroupClass as SubgroupClass
from .lie._compact import CompactLieGroup as CompactLieGroup
from .lie._euclidean import SE2 as SE2
from .lie._euclidean import SE3 as SE3
from .lie._euclidean import Translations as Translations
from .lie._lie_group import LieGroup as LieGroup
from .lie._planar import O2 as O2
from .lie._planar import SO2 as SO2
from .lie._representation import LieRepresentation as LieRepresentation
from .lie._representation import degree_of as degree_of
from .lie._spatial import O3 as O3
from .lie._spatial import SO3 as SO3
from .names._groups import parse as parse
from .names._groups import parse_finite as parse_finite
from .names._representations import parse_representation as parse_representation
from .names._representations import parse_subgroup as parse_subgroup
from .special._clebsch_gordan import clebsch_gordan as clebsch_gordan
from .special._harmonics import circular_harmonics as circular_harmonics
from .special._harmonics import spherical_harmonics as spherical_harmonics
from .special._wigner import wigner_d as wigner_d
from .special._wigner import wigner_ds as wigner_ds
from .tensors._tensor_space import TensorSpace as TensorSpace
