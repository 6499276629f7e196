// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

//go:build peers

// Package peers pins Helm, which installs the chart as users do.
package peers

import _ "helm.sh/helm/v3/cmd/helm"
