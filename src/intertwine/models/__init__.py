"""Complete networks, built from layers.

What the files hold:

    resnet, wide_resnet, convnext, unet  ready-made networks for any finite group of the plane
    names, recipe                        networks by name, and trained networks from a folder
    group_cnn, classic, vgg              small image classifiers, plain and symmetric
    simple_net, soft_resnet              networks with relaxed layers
    point_network, spherical_cnn         networks on point clouds and on the sphere
    vae, topographic_vae                 variational autoencoders of sequences
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_face
from ._classic import LeNet5 as LeNet5
from ._classic import linear_classifier as linear_classifier
from ._classic import multilayer_perceptron as multilayer_perceptron
from ._convnext import convnext as convnext
from ._group_cnn import GroupCNN as GroupCNN
from ._group_cnn import plain_cnn as plain_cnn
from ._point_network import point_block as point_block
from ._point_network import point_network as point_network
from ._resnet import resnet as resnet
from ._simple_net import SimpleNet as SimpleNet
from ._soft_resnet import SOFT_RESNETS as SOFT_RESNETS
from ._soft_resnet import SoftResNet as SoftResNet
from ._spherical_cnn import SphericalCNN as SphericalCNN
from ._topographic_vae import BubbleVAE as BubbleVAE
from ._topographic_vae import NotCyclicWarning as NotCyclicWarning
from ._topographic_vae import TopographicVAE as TopographicVAE
from ._unet import unet as unet
from ._vae import VAE as VAE
from ._vae import VAEOutput as VAEOutput
from ._vae import topographic_pool as topographic_pool
from ._vgg import GVGG11 as GVGG11
from ._vgg import VGG11 as VGG11
from ._wide_resnet import wide_resnet as wide_resnet

if TYPE_CHECKING:  # lets type checkers and editors see what __getattr__ provides
    from ._names import MODELS as MODELS
    from ._names import NamedModel as NamedModel
    from ._recipe import Recipe as Recipe
    from ._recipe import trained as trained

# Only the command line needs networks by name.
__getattr__, __dir__ = lazy_face(__name__, {"_names": ["MODELS", "NamedModel"], "_recipe": ["Recipe", "trained"]})
