"""The wheel of the module with the shared library beside it; `./lab build wheel` runs this, in a copy of the folder."""

import os

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class PlatformWheel(bdist_wheel):
    """For every Python 3 of one platform: the library is called through ctypes."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    """Holds machine code, though no extension module."""

    def has_ext_modules(self):
        return True


setup(distclass=BinaryDistribution, version=os.environ["CAUSEWAY_VERSION"], cmdclass={"bdist_wheel": PlatformWheel})
