//go:build !before1_34 && before1_35

package main

import "k8s.io/kubernetes/pkg/scheduler/framework"

type nomination = framework.NominatingInfo
