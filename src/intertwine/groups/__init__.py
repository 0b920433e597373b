"""Groups and their representations: any finite group, and the Lie groups of geometry.

The files at the top define groups, representations and intertwiners. The sub-packages build on them, in this order;
each one imports only those before it.

    special   spherical harmonics, Wigner matrices, Clebsch-Gordan coefficients
    finite    Cayley tables, subgroups, irreps, products, groups with a name
    lie       SO(2), O(2), SO(3), O(3), and the motions of Euclidean space
    names     groups, representations and subgroups from text
"""

from ._group import Element as Element
from ._group import Group as Group
from ._intertwiners import intertwiners as intertwiners
from ._intertwiners import permutation_intertwiners as permutation_intertwiners
from ._representation import Decomposition as Decomposition
from ._representation import Representation as Representation
from ._representation import direct_sum as direct_sum
from .finite import Alternating as Alternating
from .finite import Cyclic as Cyclic
from .finite import Dihedral as Dihedral
from .finite import FiniteGroup as FiniteGroup
from .finite import Icosahedral as Icosahedral
from .finite import MatrixRepresentation as MatrixRepresentation
from .finite import Octahedral as Octahedral
from .finite import PermutationRepresentation as PermutationRepresentation
from .finite import Quaternion as Quaternion
from .finite import Subgroup as Subgroup
from .finite import SubgroupClass as SubgroupClass
from .finite import Symmetric as Symmetric
from .finite import Tetrahedral as Tetrahedral
from .finite import direct_product as direct_product
from .finite import isomorphism as isomorphism
from .finite import semidirect_product as semidirect_product
from .finite import structure_name as structure_name
from .lie import O2 as O2
from .lie import O3 as O3
from .lie import SE2 as SE2
from .lie import SE3 as SE3
from .lie import SO2 as SO2
from .lie import SO3 as SO3
from .lie import CompactLieGroup as CompactLieGroup
from .lie import LieGroup as LieGroup
from .lie import LieRepresentation as LieRepresentation
from .lie import Translations as Translations
from .lie import degree_of as degree_of
from .names import parse as parse
from .names import parse_finite as parse_finite
from .names import parse_representation as parse_representation
from .names import parse_subgroup as parse_subgroup
from .special import circular_harmonics as circular_harmonics
from .special import clebsch_gordan as clebsch_gordan
from .special import spherical_harmonics as spherical_harmonics
from .special import wigner_d as wigner_d
from .special import wigner_ds as wigner_ds
