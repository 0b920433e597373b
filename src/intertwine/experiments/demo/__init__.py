"""The four verbs on embedded digits, in minutes and without downloads."""

from ._capsules import TurningDigits as TurningDigits
from ._capsules import load_capsules as load_capsules
from ._capsules import save_capsules as save_capsules
from ._capsules import train_capsules as train_capsules
from ._demo import Demo as Demo
from ._demo import DemoNetwork as DemoNetwork
from ._demo import run_demo as run_demo
from ._demo import save_demo as save_demo
