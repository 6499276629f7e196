// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Command etcd starts the etcd server; its module holds no such command.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
