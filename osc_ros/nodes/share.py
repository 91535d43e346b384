"""Where the files of this package are, however it was installed."""

from __future__ import annotations

from pathlib import Path
import sys

from osc_ros.errors import InputError


def share_directory() -> Path:
    """
    Folder with config/ and launch/.

    By the ament index, else under the Python's own prefix (pip), else the checkout.

    Raises
    ------
    InputError
        There is none.

    """
    candidates = []
    try:
        from ament_index_python.packages import get_package_share_directory
        candidates.append(Path(get_package_share_directory('osc_ros')))
    except (ImportError, LookupError, OSError, ValueError):
        pass  # no ROS here, or one that does not know of this package
    candidates.append(Path(sys.prefix) / 'share' / 'osc_ros')
    candidates.append(Path(__file__).parents[2])
    for candidate in candidates:
        if (candidate / 'config' / 'fastdds.xml').is_file():
            return candidate
    raise InputError('the files of osc_ros (config/fastdds.xml) are in none of: '
                     + ', '.join(map(str, candidates)))
