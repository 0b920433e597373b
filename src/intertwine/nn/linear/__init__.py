"""Linear layers with weights: convolutions on grids and spheres, linear maps at each point and between cosets."""

from ._conv1d import Conv1d as Conv1d
from ._conv2d import Conv2d as Conv2d
from ._conv3d import Conv3d as Conv3d
from ._conv_transpose import ConvTranspose2d as ConvTranspose2d
from ._conv_transpose import ConvTranspose3d as ConvTranspose3d
from ._coset_linear import CosetLinear as CosetLinear
from ._depthwise import DepthwiseConv2d as DepthwiseConv2d
from ._linear import Linear as Linear
from ._sphere_conv import SphereConv as SphereConv
