"""The nodes: the only part of the package that knows ROS."""

try:
    import rclpy  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError('osc_ros.nodes needs ROS 2: source an installation of it, or '
                              "pip install 'osc_ros[jazzy]'") from None
