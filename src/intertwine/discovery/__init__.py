"""Discover: which symmetry data has, how strictly a network should obey it, and what that is worth.

``intertwine.discover`` is :func:`discover` of this room. The room has another name than its function because Python
binds an imported sub-package to its name in the package.
"""

from ._candidate import Candidate as Candidate
from ._candidate import CandidateLike as CandidateLike
from ._candidate import parse_candidate as parse_candidate
from ._candidate import usual_candidates as usual_candidates
from ._confused import ConfusedPair as ConfusedPair
from ._discover import discover as discover
from ._evidence import Evidence as Evidence
from ._networks import OrbitPool as OrbitPool
from ._networks import Standardize as Standardize
from ._networks import SymmetryCNN as SymmetryCNN
from ._paired import Difference as Difference
from ._paired import difference as difference
from ._result import Discovery as Discovery
from ._result import Finding as Finding
from ._result import Gain as Gain
from ._result import Picture as Picture
from ._samples import Samples as Samples
from ._samples import prepare as prepare
from ._two_sample import AUC as AUC
from ._two_sample import area_under_curve as area_under_curve
from ._verdict import Verdict as Verdict
from ._verdict import holm as holm
from ._verdict import judge as judge
from ._worth import Worth as Worth
from ._worth import data_worth as data_worth
