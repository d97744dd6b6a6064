//go:build !before1_32 && !since1_36

package main

import v1 "k8s.io/api/core/v1"

func (o *oracle) node() (*v1.Node, error) { return o.nodeNow() }
