"""Discover: which symmetry data has, how strictly a network should obey it, and what that is worth.

``intertwine.discover`` is :func:`discover` of this room. The room has another name than its function because Python
binds an imported sub-package to its name in the package. Files that train networks are
imported when one of their names is first used.

What the files hold:

    discover, samples             discover, and data prepared for it
    candidate, parse              candidate symmetries, by name and your own
    result, verdict               findings and verdicts
    two_sample, evidence, paired  is a transformed image as likely, and do labels survive?
    worth, confused               what a symmetry is worth, and which classes speak against it
    networks                      the networks that are compared
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_face
from ._two_sample import AUC as AUC
from ._two_sample import area_under_curve as area_under_curve

if TYPE_CHECKING:  # lets type checkers and editors see what __getattr__ provides
    from ._candidate import Candidate as Candidate
    from ._candidate import CandidateLike as CandidateLike
    from ._confused import ConfusedPair as ConfusedPair
    from ._discover import discover as discover
    from ._evidence import Evidence as Evidence
    from ._networks import OrbitPool as OrbitPool
    from ._networks import Standardize as Standardize
    from ._networks import SymmetryCNN as SymmetryCNN
    from ._paired import Difference as Difference
    from ._paired import difference as difference
    from ._parse import combine as combine
    from ._parse import parse_candidate as parse_candidate
    from ._parse import usual_candidates as usual_candidates
    from ._result import Discovery as Discovery
    from ._result import Finding as Finding
    from ._result import Gain as Gain
    from ._result import Picture as Picture
    from ._samples import Samples as Samples
    from ._samples import prepare as prepare
    from ._verdict import Verdict as Verdict
    from ._verdict import holm as holm
    from ._verdict import judge as judge
    from ._worth import Worth as Worth
    from ._worth import data_worth as data_worth

__getattr__, __dir__ = lazy_face(
    __name__,
    {
        "_candidate": ["Candidate", "CandidateLike"],
        "_confused": ["ConfusedPair"],
        "_discover": ["discover"],
        "_evidence": ["Evidence"],
        "_networks": ["OrbitPool", "Standardize", "SymmetryCNN"],
        "_paired": ["Difference", "difference"],
        "_parse": ["combine", "parse_candidate", "usual_candidates"],
        "_result": ["Discovery", "Finding", "Gain", "Picture"],
        "_samples": ["Samples", "prepare"],
        "_verdict": ["Verdict", "holm", "judge"],
        "_worth": ["Worth", "data_worth"],
    },
)
