// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

//go:build peers

// Package peers pins the Go driver that clusters move from, for the upgrade cases.
package peers

import _ "github.com/kubernetes-sigs/dra-driver-cpu/cmd/dracpu"
