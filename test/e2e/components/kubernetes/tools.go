// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

//go:build peers

// Package peers pins the programs that make up the test cluster. Nothing is
// built from this file; it only keeps their modules in go.mod and go.sum.
package peers

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
