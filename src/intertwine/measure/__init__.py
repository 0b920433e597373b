"""How symmetric is a network? Metrics, audits and surgery for any ``torch.nn.Module``.

The files at the top define symmetries, estimates and batches of images. The sub-packages come in this order, and
each imports only those before it. ``metrics``, ``graph`` and ``surgery`` have public names beyond those shown here.

    metrics   errors of outputs, layers and capsules
    graph     which channels belong together; networks with permuted, flipped and rotated filters
    matching  which channels correspond to each other
    surgery   merge, repair, barrier, symmetrize, tie
    load      networks and weights from files
    audits    all measurements of one network, and the files they write
"""

from ._estimate import Estimate as Estimate
from ._symmetry import Symmetry as Symmetry
from ._symmetry import parse_symmetry as parse_symmetry
from ._transformation import Transformation as Transformation
from ._transformation import transformations as transformations
from .audits._audit import Audit as Audit
from .audits._audit import audit as audit
from .audits._files import read_audit as read_audit
from .audits._reading import Gate as Gate
from .audits._reading import Note as Note
from .audits._reading import Reading as Reading
from .audits._verdict import Verdict as Verdict
from .graph import ChannelGraph as ChannelGraph
from .graph import channel_graph as channel_graph
from .graph import permute as permute
from .load._loader import Network as Network
from .load._network import load_network as load_network
from .load._weights import load_weights_into as load_weights_into
from .matching._match import Matching as Matching
from .matching._match import match as match
from .matching._match import match_networks as match_networks
from .metrics import METRICS as METRICS
from .metrics import agreement as agreement
from .metrics import equivariance_error as equivariance_error
from .metrics import invariance_error as invariance_error
from .metrics import invariance_loss as invariance_loss
from .metrics import layer_errors as layer_errors
from .metrics import lie_derivative as lie_derivative
from .metrics import shift_consistency as shift_consistency
from .surgery import Symmetrized as Symmetrized
from .surgery import accuracy as accuracy
from .surgery import barrier as barrier
from .surgery import gcnn_barrier as gcnn_barrier
from .surgery import merge as merge
from .surgery import repair as repair
from .surgery import symmetrize as symmetrize
from .surgery import tie as tie
