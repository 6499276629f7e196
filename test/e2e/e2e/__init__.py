# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""The end-to-end bed: a real cluster on one machine, and its cases."""
