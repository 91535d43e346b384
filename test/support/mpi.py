# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Environment of mpiexec."""


# Without these variables Open MPI refuses root, and more ranks than cores; MPICH ignores them.
FREELY = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1',
          'PRTE_MCA_rmaps_default_mapping_policy': ':oversubscribe',
          'OMPI_MCA_rmaps_base_oversubscribe': '1'}
