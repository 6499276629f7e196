// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

//go:build peers

// Package peers pins containerd and its shim for the test node.
package peers

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
