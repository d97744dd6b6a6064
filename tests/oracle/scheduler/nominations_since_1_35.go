//go:build !before1_35

package main

import fwk "k8s.io/kube-scheduler/framework"

type nomination = fwk.NominatingInfo
