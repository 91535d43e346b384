# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""
Operational-space dynamics of a robot, by several methods with one contract.

`operational_space` is the interface for users, `method` the contract, `methods` the table of
methods. The methods are in `chain`, `trees`, `teams` and `papers`; the last may be imported by
`methods`, tests and benchmarks only.
"""
